"""The page in a real browser: no error, no request, by mouse and by keyboard, and open to all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report._chromium import PROGRAM, Page, axe_source, chromium

from batchcut.report import write_report

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here (Debian: apt install chromium)")

CHOSEN = "document.querySelector('#members [aria-pressed=true]').dataset.sample"
TITLE = "document.getElementById('batch-title').textContent"


@pytest.fixture(scope="module")
def path(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report([runs], tmp_path_factory.mktemp("browser") / "report.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium() as page:
        yield page


@pytest.fixture
def page(browser: Page, path: Path) -> Iterator[Page]:
    """The report, freshly opened; afterwards, nothing may have gone wrong."""
    browser.errors.clear()
    browser.requests.clear()
    browser.open(path)
    yield browser
    assert browser.errors == []
    assert set(browser.requests) == {path.resolve().as_uri()}


def test_errors_and_requests_would_be_noticed(browser: Page, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='nothing.png'><script>console.error('oh'); undefined.x;</script>")
    browser.errors.clear()
    browser.requests.clear()
    browser.open(bad)
    assert any("oh" in error for error in browser.errors)
    assert any("undefined" in error for error in browser.errors)
    assert any(address.endswith("nothing.png") for address in browser.requests)


def test_the_explorer_is_clicked_through(page: Page) -> None:
    first = page.run(TITLE)
    page.click("#next")
    second = page.run(TITLE)
    assert second != first
    page.click("#previous")
    assert page.run(TITLE) == first
    for kind in ("median", "easiest", "shuffled"):
        page.run(
            f"(() => {{ const s = document.getElementById('kind'); s.value = '{kind}'; "
            "s.dispatchEvent(new Event('change')); })()"
        )
        assert page.run("document.querySelectorAll('#members button').length") == 8
        assert page.run("document.getElementById('batch-facts').textContent").startswith("Loss ")
    assert page.run(TITLE).startswith("Shuffled batch 1")
    page.click("#members li:nth-child(5) button")
    assert page.run("document.querySelector('#members li:nth-child(5) button').getAttribute('aria-pressed')") == "true"
    assert page.run("document.querySelectorAll('#neighbours li').length") == 7
    assert page.run("document.getElementById('sample-title').textContent").endswith(page.run(CHOSEN))


def test_neighbours_are_in_the_order_of_their_weights(page: Page) -> None:
    words = page.run("[...document.querySelectorAll('#neighbours .words')].map((e) => e.textContent)")
    weights = [float(text.partition("weight ")[2].split()[0]) for text in words]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] > 0


def test_suspected_false_negatives_are_marked_for_eyes_and_ears(page: Page) -> None:
    for place in range(1, 9):
        page.click(f"#members li:nth-child({place}) button")
        if not page.run("document.getElementById('sample-facts').textContent").count(" 0 of 7"):
            break
    labels = page.run("[...document.querySelectorAll('#members button')].map((e) => e.getAttribute('aria-label'))")
    marks = page.run("document.querySelectorAll('#members .flag:not(.class)').length")
    assert marks == sum("suspected false negative" in label for label in labels) > 0


def test_a_sample_is_found(page: Page) -> None:
    page.click("#search")
    for letter in "17":
        page.press(letter, text=letter)
    found = page.run("[...document.querySelectorAll('#found button')].map((e) => e.textContent)")
    assert sum("Cut, epoch 2" in text for text in found) >= 1
    assert sum("Cut, epoch 3" in text for text in found) >= 1
    page.click("#found li:last-child button")
    assert page.run(CHOSEN) == "17"
    assert page.run("document.activeElement.dataset.sample") == "17"
    page.run(
        "(() => { const s = document.getElementById('search'); s.value = '99999'; "
        "s.dispatchEvent(new Event('input')); })()"
    )
    assert page.run("document.getElementById('found').textContent") == "No batch here holds 99999."


def test_all_works_by_keyboard(page: Page) -> None:
    seen = []
    for _ in range(200):
        page.press("Tab")
        name = page.run(
            "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
        )
        seen.append(name)
        if name == "next":
            break
    assert {"plan", "kind", "batch", "next"} <= set(seen)
    before = page.run(TITLE)
    page.press("Enter", text="\r")
    assert page.run(TITLE) != before
    page.run("document.querySelector('#members button').focus()")
    page.press("ArrowRight")
    page.press(" ", text=" ")
    assert page.run("document.querySelector('#members li:nth-child(2) button').getAttribute('aria-pressed')") == "true"
    assert page.run("document.activeElement.getAttribute('aria-pressed')") == "true"


@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_fits_its_window(page: Page, path: Path, width: int) -> None:
    page.open(path, width=width)
    assert page.run("document.documentElement.scrollWidth") <= width


def test_on_a_phone_tables_scroll_in_a_box_of_their_own(page: Page, path: Path) -> None:
    page.open(path, width=390)
    page.run("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert page.run("document.documentElement.scrollWidth") <= 390
    boxes = page.run(
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


def test_a_wide_table_is_scrolled_by_keyboard_and_keeps_its_methods_in_sight(page: Page, path: Path) -> None:
    page.open(path, width=390)
    page.run("document.querySelector('#comparison .scroll').focus()")
    for _ in range(5):
        page.press("ArrowRight")
    moved = (
        "new Promise((done) => setTimeout(() => done(document.querySelector('#comparison .scroll').scrollLeft), 400))"
    )
    assert page.run(moved) > 0
    left = "document.querySelector('#comparison tbody th').getBoundingClientRect().left"
    assert 0 <= page.run(left) < 40


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_light_and_dark(page: Page, path: Path, dark: bool) -> None:
    page.open(path, dark=dark)
    channels = page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(channels) < 64) == dark


@pytest.mark.skipif(axe_source() is None, reason="axe-core is not installed (make test installs it)")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_axe_finds_nothing(page: Page, path: Path, width: int, dark: bool) -> None:
    source = axe_source()
    assert source is not None
    page.open(path, width=width, dark=dark)
    page.run("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    page.run(source.read_text(encoding="utf-8") + "; 0")
    report = "r.violations.map((v) => `${v.id}: ${v.nodes.length} such as ${v.nodes[0].html}`)"
    checked, violations = page.run(f"axe.run().then((r) => [r.passes.length, {report}])")
    assert violations == []
    assert checked > 20
