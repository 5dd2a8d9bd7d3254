"""The documentation builds, a warning is an error, and its tables are those of the benchmarks' results."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import headline, tables
from playwright.sync_api import Browser
from tests._browser import opened

ROOT = Path(__file__).parent.parent
MOST_LINES = 20
LONGEST_LINE = 120
RECORD = {"benchmarks.md", "background.md", "effective-size.md", "errata.md", "open-case.md", "paper.md"}
DIARY = re.compile(r"was tried|were tried|on another day|nobody had looked|earlier version", re.IGNORECASE)
NOT_PROSE = re.compile(r"```.*?```|<!-- begin (\S+) -->.*?<!-- end \1 -->|^ *\|.*?$|^!\[.*?$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is an extra: pip install 'batchcut[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_site_builds_without_a_warning_and_shows_sources(site: Path) -> None:
    page = (site / "api" / "sampling.html").read_text(encoding="utf-8")
    assert "PlannedLoader" in page
    assert "Source code in" in page


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.html", "api/sampling.html"])
def test_search_works_from_a_folder(site: Path, browser: Browser, page: str) -> None:
    with opened(browser, site / page) as (view, seen):
        view.click(".md-search__input")
        view.keyboard.type("replan_every")
        view.wait_for_selector(".md-search-result__item")
        assert not seen.errors
        assert all(address.startswith("file:") for address in seen.requests)


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1400, 390])
def test_pages_fit_and_show_their_pictures(site: Path, browser: Browser, width: int, dark: bool) -> None:
    for name in ("index", "start", "choosing", "does-it-pay", "selection", "guides/pytorch"):
        with opened(browser, site / f"{name}.html", width=width, dark=dark) as (view, seen):
            assert not seen.errors
            assert view.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1")
            code = "[...document.querySelectorAll('pre > code')].every(c => c.scrollWidth <= c.clientWidth + 1)"
            assert width < 1000 or view.evaluate(code), name
            shown = "[...document.images].filter(i => getComputedStyle(i).display !== 'none')"
            assert view.evaluate(f"{shown}.every(i => i.complete && i.naturalWidth > 0)"), name


def prose_of(page: Path) -> str:
    """Its text but for code and tables."""
    return NOT_PROSE.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_prose_fits_an_editor_and_is_no_diary(page: Path) -> None:
    text = prose_of(page)
    assert [line for line in text.splitlines() if len(line) > LONGEST_LINE] == []
    assert page.name in RECORD or not DIARY.search(text)


def test_the_headline_compares_with_the_best_shuffled_size() -> None:
    found = [("shuffle", 16, 0.3), ("shuffle", 32, 0.32), ("shuffle", 256, 0.36), ("shuffle", 512, 0.35)]
    found += [("cut", 16, 0.39), ("cut", 32, 0.4)]
    rows = [{"method": method, "batch_size": size, "top1": top1, "seeds": 5} for method, size, top1 in found]
    sizes = {"summary": [row | {"data": data} for data in ("functions", "pairs") for row in rows]}
    images = {"data": "images, seeds from 5", "objective": "simclr", "seeds": 8, "added_time": 0.2}
    training = {"summary": [images | {"method": "Shuffle", "top1": 0.3}, images | {"method": "Cut", "top1": 0.33}]}
    tuned = [
        {"data": data, "method": method, "seeds": 2, "top1": {"mean": top1}}
        for data in ("functions", "debian")
        for method, top1 in (("shuffled", 0.5), ("planned", 0.55))
    ]
    lines = headline.headline_table(sizes, training, {"summary": tuned}).splitlines()
    assert lines[2] == "| functions by what they do, B = 32 | two small towers | 5 | 32.0 | 40.0 | +8.0 |"
    assert lines[-2].endswith("planned B = 16 beside shuffled B = 256 | two small towers | 5 | 36.0 | 39.0 | +3.0 |")
    figures = headline.front_figures(sizes, {"added": 0.033}, training).splitlines()
    assert (
        figures[1] == "- **Batches of 16**, planned, reach 39.0 % at equal epochs; the best shuffled size, 256, 36.0 %."
    )


def test_the_path_of_an_epoch_names_what_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    path = text.split("## The path of one planned epoch")[1].split("## ")[0]
    assert len(re.findall(r"^\d+\. ", path, re.MULTILINE)) <= len(path.strip().splitlines()) - 2 <= MOST_LINES
    source = ROOT / "src" / "batchcut"
    placed = re.findall(r"`(?:(\w+)\.)?(\w+)` \(`([\w/]+\.py)`\)", path)
    assert placed
    for owner, name, place in placed:
        code = (source / place).read_text(encoding="utf-8")
        assert re.search(rf"(def|class) {name}\b", code), f"{name} is not in {place}"
        assert not owner or re.search(rf"class {owner}\b", code), f"{owner} is not in {place}"
    everything = "".join(file.read_text(encoding="utf-8") for file in source.rglob("*.py"))
    for name in re.findall(r"`(?:\w+\.)?(\w+)`", path):
        assert re.search(rf"(def|class|import) {name}\b", everything), f"{name} is nowhere"


def test_pages_hold_the_tables_of_the_results() -> None:
    pages = tables.pages(ROOT / "docs")
    expected = {"index.md", "does-it-pay.md", "choosing.md", "selection.md", "benchmarks.md"}
    assert expected <= {page.name for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        again = tables.rewritten(text, ROOT / "benchmarks")
        assert again == text, f"{page.name} is not up to date: run python benchmarks/tables.py"


def test_all_tables_are_shown() -> None:
    texts = [page.read_text(encoding="utf-8") for page in tables.pages(ROOT / "docs")]
    assert {match["name"] for text in texts for match in tables.PART.finditer(text)} == set(tables.SOURCES)


def test_a_table_without_results_says_so(tmp_path: Path) -> None:
    page = "before\n<!-- begin training -->\nold\n<!-- end training -->\nafter\n"
    written = tables.rewritten(page, tmp_path)
    assert written == f"before\n<!-- begin training -->\n\n{tables.ABSENT}\n\n<!-- end training -->\nafter\n"
    assert tables.rewritten(written, tmp_path) == written


def test_results_that_only_choose_are_no_table_yet(tmp_path: Path) -> None:
    (tmp_path / "batch_sizes_results.json").write_text('{"summary": [], "bars": [], "runs": [1]}', encoding="utf-8")
    assert tables.table("batch-sizes", tmp_path) == tables.ABSENT


def test_training_table_shows_the_summary(tmp_path: Path) -> None:
    shuffled = {
        "data": "images",
        "objective": "simclr",
        "method": "Shuffle",
        "seeds": 3,
        "top1": 0.451,
        "spread": 0.0042,
        "gain": 0.0,
        "share_of_steps": 1.0,
        "added_time": 0.0,
    }
    cut = shuffled | {"method": "Cut", "top1": 0.4834, "spread": None, "gain": 0.0324, "added_time": 0.031}
    rows = [shuffled, cut | {"share_of_steps": 0.6}, cut | {"method": "Spectral", "share_of_steps": None}]
    (tmp_path / "training_results.json").write_text(json.dumps({"runs": [], "summary": rows}), encoding="utf-8")
    lines = tables.table("training", tmp_path).splitlines()
    assert lines[2:] == [
        "| images | simclr | Shuffle | 3 | 45.10 ± 0.42 % | +0.00 | 100% | 0.0% |",
        "| images | simclr | Cut | 3 | 48.34 % | +3.24 | 60% | 3.1% |",
        "| images | simclr | Spectral | 3 | 48.34 % | +3.24 | not reached by all | 3.1% |",
    ]


def test_batch_sizes_table_shows_both_kinds_side_by_side_and_the_bars(tmp_path: Path) -> None:
    shuffled = {"data": "pairs", "batch_size": 32, "method": "shuffle", "rate": 5e-4, "seeds": 5, "top1": 0.755}
    shuffled |= {"spread": 0.004, "gain": 0.0, "gain_spread": 0.0, "seconds": None}
    planned = shuffled | {"method": "cut", "rate": 1e-3, "top1": 0.79512, "gain": 0.04, "gain_spread": 0.003}
    bar = {"data": "pairs", "name": "highest over lowest", "value": 0.012, "bound": 0.01, "at_least": False}
    facts = {"summary": [shuffled, planned | {"seconds": 14.26}], "bars": [bar | {"passed": False}]}
    (tmp_path / "batch_sizes_results.json").write_text(json.dumps(facts), encoding="utf-8")
    lines = tables.table("batch-sizes", tmp_path).splitlines()
    assert (
        lines[0]
        == "On pairs, from B = 32 to 32, shuffled batches from 75.5 to 75.5 % and default batches from 79.5 to 79.5 %."
    )
    assert lines[4:7] == [
        "| pairs | 32 | 75.50 ± 0.40 % | 79.51 ± 0.40 % | +4.00 ± 0.30 | 0.0005, 0.001 | 5 | –, 14.3 |",
        "",
        "- pairs: highest over lowest: +1.20 points, must be ≤ 1: **fail**",
    ]


def test_rivals_table_shows_gains_over_shuffled_batches(tmp_path: Path) -> None:
    shuffled = {"data": "pairs", "rival": "shuffled", "seeds": 5, "top1": 0.755, "spread": 0.004}
    shuffled |= {"gain": 0.0, "gain_spread": 0.0, "seconds": 9.04}
    rival = shuffled | {"rival": "groups of 8", "top1": 0.785, "gain": 0.03, "gain_spread": None, "seconds": None}
    ours = shuffled | {"rival": "default", "gain": 0.04}
    (tmp_path / "rivals_training_results.json").write_text(
        json.dumps({"summary": [shuffled, rival, ours]}), encoding="utf-8"
    )
    lines = tables.table("rivals-training", tmp_path).splitlines()
    assert lines[0] == (
        "On pairs the default gains +4.0 points over shuffled batches; of all others, groups of 8 gains most, +3.0."
    )
    assert lines[4:-1] == [
        "| pairs | shuffled | 5 | 75.50 ± 0.40 % |  | 9.0 |",
        "| pairs | groups of 8 | 5 | 78.50 ± 0.40 % | +3.00 | – |",
    ]


def test_finetune_table_shows_gains_with_their_errors(tmp_path: Path) -> None:
    score = {"mean": 0.6208, "spread": 0.004, "gain": 0.0368, "error": 0.0021}
    row = {"data": "functions", "equal": "steps", "method": "planned", "seeds": 3, "slower": None}
    row |= dict.fromkeys(("top1", "mrr10"), score) | {"ndcg10": score | {"gain": None, "spread": None}}
    (tmp_path / "finetune_results.json").write_text(json.dumps({"summary": [row]}), encoding="utf-8")
    assert tables.table("finetune", tmp_path).splitlines()[2:] == [
        "| functions | steps | planned | 3 | 62.1 ± 0.4 | 3.7 ± 0.2 | 62.1 ± 0.4 | 3.7 ± 0.2 | 62.1 | – | – |"
    ]


def test_overhead_table_shows_the_parts(tmp_path: Path) -> None:
    facts = {"images": 15_000, "real": True, "batch_size": 32, "steps": 468, "step": 0.04, "timed": 150}
    facts |= {"epoch": 20.0, "recording": 0.1, "planning": 0.6, "sampling": 0.02, "added": 0.036, "cpu_added": 0.042}
    (tmp_path / "overhead_results.json").write_text(json.dumps(facts), encoding="utf-8")
    table = tables.table("overhead", tmp_path)
    assert "15,000 CIFAR-100 images, B = 32, 468 steps of 40.0 ms, 150 of each loop timed." in table
    assert "| planning | 0.600 | 3.00% |" in table
    assert table.endswith("| together | 0.720 | 3.60% by the clock, 4.20% of the processors' time |")


def test_a_table_that_nobody_makes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a table must be one of figures, .*; got speed"):
        tables.rewritten("<!-- begin speed -->\n<!-- end speed -->", tmp_path)
