import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.paper._items import Counter, item

from batchcut.paper import Settings, finished, run_items, write_page
from batchcut.paper.page import page


@pytest.fixture
def html(tmp_path: Path) -> str:
    items = [item(Counter(1), "fig:first"), item(Counter(2), "fig:second")]
    return page(tmp_path, list(run_items(items, Settings(scale="quick"), out=tmp_path)))


class Tags(HTMLParser):
    """Collects the tags, and sees that those that must be closed are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "source", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_well_formed_and_every_picture_has_words(html: str) -> None:
    tags = Tags(html)
    assert tags.open == []
    pictures = [attributes for tag, attributes in tags.seen if tag == "img"]
    assert [picture["alt"] for picture in pictures] == ['a line to "1"', 'a line to "2"']


def test_page_needs_no_network(html: str) -> None:
    addresses = re.findall(r'(?:src|srcset|href)="([^"]*)"', html)
    assert addresses
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert "@import" not in html
    assert "url(" not in html


def test_page_is_for_phones_and_for_dark_rooms(html: str) -> None:
    assert '<meta name="viewport" content="width=device-width' in html
    assert "prefers-color-scheme: dark" in html
    assert len(re.findall("<source media=", html)) == 2


def test_page_says_what_agrees_and_why_not(html: str) -> None:
    text = re.sub(r"<[^>]*>", "", html)
    for expected in ("agrees", "does not agree", "Why: it is not 1.", "Made up.", "Values", "quick scale", "Paper: 1."):
        assert expected in text
    assert text.count("Why:") == 1


def test_titles_are_escaped(html: str) -> None:
    assert "Small &amp; &lt;quick&gt;" in html
    assert "<quick>" not in html


def test_page_of_nothing(tmp_path: Path) -> None:
    assert finished(tmp_path) == []
    assert write_page(tmp_path, []).read_text().startswith("<!doctype html>")
