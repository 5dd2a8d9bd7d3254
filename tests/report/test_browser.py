"""The page in a real browser: no error, no request, by mouse and by keyboard, and open to all."""

from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from tests._browser import opened
from tests.conftest import OpenPage
from tests.report._folders import BATCH, SAMPLES, embeddings, write_run

from batchcut.report import write_plan_report, write_report
from batchcut.selection import Cut

CHOSEN = "document.querySelector('#members [aria-pressed=true]').dataset.sample"


@pytest.fixture(scope="module")
def path(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report([runs], tmp_path_factory.mktemp("browser") / "report.html")


@pytest.fixture(scope="module")
def plan_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a plan, with texts and classes."""
    u, v = embeddings(SAMPLES, np.random.default_rng(0))
    plan = Cut(margin=None)(u, v, batch_size=BATCH)
    texts = [f"text number {place}, which is rather long for a phone" for place in range(SAMPLES)]
    labels = [f"class-{place % 5}" for place in range(SAMPLES)]
    out = tmp_path_factory.mktemp("plan") / "plan.html"
    return write_plan_report(plan, u, v, out, texts=texts, labels=labels)


@pytest.fixture
def page(open_page: OpenPage, path: Path) -> Page:
    """The report, freshly opened."""
    return open_page(path)


def test_errors_and_requests_would_be_noticed(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='nothing.png'><script>console.error('oh'); undefined.x;</script>")
    with opened(browser, bad) as (_, seen):
        assert any("oh" in error for error in seen.errors)
        assert any("undefined" in error for error in seen.errors)
        assert any("Failed to load resource" in error for error in seen.errors)
        assert any(address.endswith("nothing.png") for address in seen.requests)


def test_the_explorer_is_clicked_through(page: Page) -> None:
    title, members = page.locator("#batch-title"), page.locator("#members button")
    first = title.text_content()
    page.click("#next")
    second = title.text_content()
    assert second != first
    page.click("#previous")
    assert title.text_content() == first
    for kind in ("median", "easiest", "shuffled"):
        page.select_option("#kind", kind)
        assert members.count() == 8
        assert page.inner_text("#batch-facts").startswith("Loss ")
    assert page.inner_text("#batch-title").startswith("Shuffled batch 1")
    members.nth(4).click()
    assert members.nth(4).get_attribute("aria-pressed") == "true"
    assert page.locator("#neighbours li").count() == 7
    assert page.inner_text("#sample-title").endswith(page.evaluate(CHOSEN))


def test_neighbours_are_in_the_order_of_their_weights(page: Page) -> None:
    words = page.locator("#neighbours .words").all_text_contents()
    weights = [float(text.partition("weight ")[2].split()[0]) for text in words]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] > 0


def test_suspected_false_negatives_are_marked_for_eyes_and_ears(page: Page) -> None:
    members = page.locator("#members button")
    for place in range(8):
        members.nth(place).click()
        if " 0 of 7" not in page.inner_text("#sample-facts"):
            break
    labels = [member.get_attribute("aria-label") or "" for member in members.all()]
    marks = page.locator("#members .flag:not(.class)").count()
    assert marks == sum("suspected false negative" in label for label in labels) > 0


def test_a_sample_is_found(page: Page) -> None:
    page.click("#search")
    page.keyboard.type("17")
    found = page.locator("#found button").all_text_contents()
    assert sum("Cut, epoch 2" in text for text in found) >= 1
    assert sum("Cut, epoch 3" in text for text in found) >= 1
    page.click("#found li:last-child button")
    assert page.evaluate(CHOSEN) == "17"
    assert page.evaluate("document.activeElement.dataset.sample") == "17"
    page.fill("#search", "99999")
    assert page.text_content("#found") == "No batch here holds 99999."


def test_all_works_by_keyboard(page: Page) -> None:
    seen = []
    for _ in range(200):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
        )
        seen.append(name)
        if name == "next":
            break
    assert {"plan", "kind", "batch", "next"} <= set(seen)
    before = page.text_content("#batch-title")
    page.keyboard.press("Enter")
    assert page.text_content("#batch-title") != before
    page.focus("#members button")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.locator("#members button").nth(1).get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_fits_its_window(open_page: OpenPage, path: Path, width: int) -> None:
    assert open_page(path, width=width).evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_tables_scroll_in_a_box_of_their_own(open_page: OpenPage, path: Path) -> None:
    page = open_page(path, width=390)
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = page.evaluate(
        "[...document.querySelectorAll('table')].map((t) => { const b = t.parentElement, r = b.getBoundingClientRect();"
        " const by = b.getAttribute('aria-labelledby'); return {"
        " inside: r.left >= 0 && r.right <= 390, wide: b.scrollWidth > b.clientWidth,"
        " scrolls: getComputedStyle(b).overflowX, tab: b.tabIndex, role: b.getAttribute('role'),"
        " label: by ? document.getElementById(by).textContent : b.getAttribute('aria-label')}; })"
    )
    assert len(boxes) >= 8
    assert any(box["wide"] for box in boxes)
    for box in boxes:
        assert (box["inside"], box["scrolls"], box["tab"], box["role"]) == (True, "auto", 0, "group")
    assert len({box["label"] for box in boxes}) == len(boxes)


def test_a_wide_table_is_scrolled_by_keyboard_and_keeps_its_methods_in_sight(open_page: OpenPage, path: Path) -> None:
    page = open_page(path, width=390)
    page.focus("#comparison .scroll")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    scrolled = "document.querySelector('#comparison .scroll').scrollLeft"
    for _ in range(200):  # not `wait_for_function`, which evaluates text in the page: its policy forbids that
        if page.evaluate(scrolled):
            break
        page.wait_for_timeout(50)
    assert page.evaluate(scrolled) > 0
    left = "document.querySelector('#comparison tbody th').getBoundingClientRect().left"
    assert 0 <= page.evaluate(left) < 40


@pytest.mark.parametrize("width", [390, 1200])
def test_no_word_is_broken_and_no_tick_is_cut_off(open_page: OpenPage, path: Path, plan_path: Path, width: int) -> None:
    for one in (path, plan_path):
        page = open_page(one, width=width)
        heads = page.evaluate("[...document.querySelectorAll('.scroll thead')].map((e) => e.offsetHeight)")
        assert heads
        assert max(heads) < 140  # a heading of four words, one below the other
        lefts = page.evaluate(
            "[...document.querySelectorAll('svg.chart text.tick:not([transform])')].map((e) => e.getBBox().x)"
        )
        assert lefts
        assert min(lefts) >= 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_light_and_dark(open_page: OpenPage, path: Path, dark: bool) -> None:
    page = open_page(path, dark=dark)
    channels = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(channels) < 64) == dark


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_axe_finds_nothing(open_page: OpenPage, path: Path, width: int, dark: bool) -> None:
    page = open_page(path, width=width, dark=dark)
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    assert len(results.response["passes"]) > 20


@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_of_a_plan_is_clicked_through_and_open_to_all(
    open_page: OpenPage, plan_path: Path, width: int
) -> None:
    page = open_page(plan_path, width=width)
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for kind in ("hardest", "median", "easiest", "shuffled"):
        page.select_option("#kind", kind)
        assert page.locator("#members button").count() == BATCH
    page.fill("#search", "text number 17")
    page.click("#found li:last-child button")
    assert page.evaluate(CHOSEN) == "17"
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


def test_long_labels_and_many_tasks_fit_a_phone(open_page: OpenPage, tmp_path: Path) -> None:
    for name in ("pairs:/somewhere/far/away/embeddings_of_the_first_model_of_all", "digits"):
        for method, note in (("shuffle", "a"), ("cut", "a"), ("cut", "b" * 200)):
            place = tmp_path / "runs" / f"{name[:2]}-{method}-{note[:5]}"
            config = write_run(place, method=method, settings=f"note = {note!r}") / "config.toml"
            config.write_text(config.read_text().replace("'digits'", repr(name)))
    page = open_page(write_report([tmp_path / "runs"], tmp_path / "report.html"), width=360)
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    widths = page.evaluate(
        "[...document.querySelectorAll('.results tbody th[scope=row]')].map((e) => e.getBoundingClientRect().width)"
    )
    assert len(widths) == 6
    assert max(widths) < 360 / 2  # room for a column beside the names, which stay in sight
    ends = page.evaluate("[...document.querySelectorAll('svg .label')].map((e) => e.getBBox().x + e.getBBox().width)")
    assert ends
    assert max(ends) <= 440  # the width of a chart
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


@pytest.mark.parametrize("width", [1200, 390])
def test_marks_cover_no_words(open_page: OpenPage, plan_path: Path, width: int) -> None:
    page = open_page(plan_path, width=width)
    overlaps = """() => [...document.querySelectorAll('#members button')].flatMap((button) => {
        const range = document.createRange();
        return [...button.querySelectorAll('.flag')].map((flag) => {
            const mark = flag.getBoundingClientRect();
            const texts = document.createTreeWalker(button, NodeFilter.SHOW_TEXT);
            const rects = [];
            while (texts.nextNode()) {
                if (texts.currentNode.parentElement.closest('.flag, .hidden')) continue;
                range.selectNodeContents(texts.currentNode);
                rects.push(...range.getClientRects());
            }
            const aside = (r) => r.right <= mark.left || r.left >= mark.right;
            return !rects.every((r) => aside(r) || r.bottom <= mark.top || r.top >= mark.bottom);
        });
    })"""
    found = page.evaluate(overlaps)
    assert found
    assert not any(found)
