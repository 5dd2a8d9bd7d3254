"""The documentation builds, a warning is an error, and its tables are those of the benchmarks' results."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from benchmarks import tables
from benchmarks.loops import waiting
from benchmarks.pages import headline
from playwright.sync_api import Browser
from tests._browser import opened

ROOT = Path(__file__).parent.parent
MOST_LINES = 20
LONGEST_LINE = 100
MOST_SENTENCES = 3
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
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
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_and_show_their_pictures(site: Path, browser: Browser, width: int, dark: bool) -> None:
    for page in sorted(set(site.rglob("*.html")) - {site / "404.html"}):
        name = str(page.relative_to(site))
        with opened(browser, page, width=width, dark=dark) as (view, seen):
            assert not seen.errors, name
            fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1"
            assert view.evaluate(fits), name
            boxes = "[...document.querySelectorAll('pre > code, .md-typeset__scrollwrap')]"
            assert width < 1000 or view.evaluate(f"{boxes}.every(b => b.scrollWidth <= b.clientWidth + 1)"), name
            shown = "[...document.images].filter(i => getComputedStyle(i).display !== 'none')"
            assert view.evaluate(f"{shown}.every(i => i.complete && i.naturalWidth > 0)"), name


@pytest.mark.slow
def test_links_within_the_site_lead_somewhere(site: Path) -> None:
    found = set(site.rglob("*.html")) - {site / "404.html"}  # which only a server shows
    pages = {page.resolve(): page.read_text(encoding="utf-8") for page in found}
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    for page, text in pages.items():
        for address, _, anchor in (link.partition("#") for link in re.findall(r'<a [^>]*?href="([^"]*)"', text)):
            if address.startswith(("http", "mailto")):
                continue
            target = (page.parent / address).resolve() if address else page
            assert target.exists(), f"{page.name}: {address}"
            assert not anchor or target not in anchors or unquote(anchor) in anchors[target] | {"__skip"}, (
                f"{page.name}: {address}#{anchor}"
            )


def prose_of(page: Path) -> str:
    """Its text but for code and tables."""
    return NOT_PROSE.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_prose_fits_an_editor_and_is_no_diary(page: Path) -> None:
    text = prose_of(page)
    assert [line for line in text.splitlines() if len(line) > LONGEST_LINE] == []
    assert page.name in RECORD or not DIARY.search(text)
    assert not re.search(r"\w-\n *\w", text), "a word that is parted at a hyphen is shown with a space in it"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_code_fits_its_column(page: Path) -> None:
    code = CODE.findall(page.read_text(encoding="utf-8"))
    assert [line for block in code for line in block.splitlines() if len(line) > LONGEST_LINE] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=lambda path: path.name)
def test_the_lines_that_change_are_those_of_the_loop_that_runs(page: Path) -> None:
    (block,) = re.findall(r"^```diff\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    loop = (ROOT / "examples" / "pytorch_loop.py").read_text(encoding="utf-8")
    lines = [line[1:].strip() for line in block.splitlines() if not line.startswith("-") and "..." not in line]
    assert lines
    assert all(line in loop for line in lines)


def test_formulas_are_text_that_the_pages_can_show() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), *PAGES]
    assert [path for path in sources if re.search(r":math:|\.\. math::|\$\$", path.read_text(encoding="utf-8"))] == []


def test_answers_of_the_faq_are_short() -> None:
    answers = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for answer in answers:
        question, text = answer.split("\n", 1)
        assert len(re.findall(r"[.!?](?=\s|$)", text)) <= MOST_SENTENCES, question


def test_the_headline_compares_with_the_best_shuffled_size() -> None:
    found = [("shuffle", 16, 0.3), ("shuffle", 32, 0.32), ("shuffle", 256, 0.36), ("shuffle", 512, 0.35)]
    found += [("cut", 16, 0.39), ("cut", 32, 0.4)]
    towers = ("functions", "pairs")
    rows = [{"method": method, "batch_size": size, "top1": top1, "seeds": 5} for method, size, top1 in found]
    sizes = {"summary": [row | {"data": data} for data in towers for row in rows]}
    taken = {"shuffled": 2.0, "default": 3.0}
    timed = [{"data": data, "rival": rival, "seconds": taken[rival]} for data in towers for rival in taken]
    rivals = {"summary": timed, "runs": [row | {"steps": 1000} for row in timed]}
    training = {
        "summary": [
            {"data": data, "objective": objective, "method": method, "seeds": seeds, "top1": top1}
            for data, objective, seeds, best in (
                ("images, seeds from 40", "simclr", 8, 0.33),
                *((f"{name}, seeds from 30", "infonce", 5, 0.41) for name in towers),
            )
            for method, top1 in (("Shuffle", 0.3), ("Cut", best))
        ]
    }
    tuned = [
        {"data": data, "equal": equal, "method": method, "seeds": 2, "top1": {"mean": top1}, "slower": slower}
        for data, slower in (("functions", 1.01), ("debian", 0.99))
        for equal, method, top1 in (("steps", "shuffled", 0.5), ("steps", "planned", 0.55), ("seconds", "planned", 0.9))
    ]
    lines = headline.headline_table(sizes, training, {"summary": tuned}).splitlines()
    assert lines[2] == "| functions by what they do, B = 32 | two small towers | 5 | 30.0 | 41.0 | +11.0 |"
    assert lines[-2].endswith("planned B = 16 beside shuffled B = 256 | two small towers | 5 | 36.0 | 39.0 | +3.0 |")
    assert lines[4] == "| functions by what they do, B = 16 | MiniLM, pretrained | 2 | 50.0 | 55.0 | +5.0 |"
    figures = headline.front_figures(training, sizes, {"added": 0.033}, {"summary": tuned}, rivals).splitlines()
    said = " ".join(" ".join(figures[1:]).split())
    assert said.startswith("- **Batches of 16**, planned, reach 39.0 % at equal epochs; shuffled ones of the best size")
    assert "size, 256, reach 36.0 %. - MiniLM takes **0.99 to 1.01 times** as long to fine-tune; 3.3 % is added" in said
    assert said.endswith("The towers above, at B = 32, take 1.5 times as long, with steps of 2 ms.")


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


def test_the_first_picture_shows_what_is_said_of_it() -> None:
    alt = "planned batches of 16 do better than shuffled batches of any size up to 512"
    assert alt in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    (results,) = (ROOT / "benchmarks").rglob("batch_sizes_results.json")
    rows = json.loads(results.read_text(encoding="utf-8"))["summary"]
    for data in {row["data"] for row in rows}:
        found = {(row["method"], row["batch_size"]): row["top1"] for row in rows if row["data"] == data}
        assert all(found["cut", 16] > top1 for (method, _), top1 in found.items() if method == "shuffle")


def test_pages_hold_the_tables_of_the_results() -> None:
    pages = tables.pages(ROOT)
    expected = {"README.md", "index.md", "does-it-pay.md", "choosing.md", "selection.md", "benchmarks.md"}
    assert expected <= {page.name for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        again = tables.rewritten(text, tables.RESULTS)
        assert again == text, f"{page.name} is not up to date: run python benchmarks/tables.py"


def test_all_tables_are_shown() -> None:
    texts = [page.read_text(encoding="utf-8") for page in tables.pages(ROOT)]
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
        "data": "pairs",
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
        "| pairs | simclr | Shuffle | 3 | 45.10 ± 0.42 % | +0.00 | 100% | 0.0% |",
        "| pairs | simclr | Cut | 3 | 48.34 % | +3.24 | 60% | 3.1% |",
        "| pairs | simclr | Spectral | 3 | 48.34 % | +3.24 | not reached by all | 3.1% |",
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


def test_bars_of_training_tell_what_is_missed(tmp_path: Path) -> None:
    gains = {"pairs": (0.041, 0.039), "functions": (0.049, 0.04), "images": (0.03, 0.035)}
    rows = [
        {"data": f"{data}, seeds from {40 if data == 'images' else 30}", "method": method, "gain": gain}
        | {"objective": "infonce", "share_of_steps": 0.45}
        for data, both in gains.items()
        for method, gain in zip(("Cut", "Cut, no background"), both, strict=True)
    ]
    seconds = {"default": 6.0, "`Cut`, no background": 5.0}
    rivals = [{"data": "pairs", "rival": name, "seconds": value} for name, value in seconds.items()]
    files = {"training": {"summary": rows}, "rivals_training": {"summary": rivals}}
    for name, facts in (files | {"overhead": {"background": 0.0005, "step": 0.05}}).items():
        (tmp_path / f"{name}_results.json").write_text(json.dumps(facts), encoding="utf-8")
    cells = [line.split(" | ")[1:] for line in tables.table("training-bars", tmp_path).splitlines()[2:]]
    assert [f"{measured} {bound} {verdict}" for measured, bound, verdict in cells] == [
        "+4.10 ≥ +4.00 pass |",
        "+0.20 ≥ +0.70 **fail** |",
        "45.0% ≤ 42.0% **fail** |",
        "+4.90 ≥ +5.00 **fail** |",
        "45.0% ≤ 50.0% pass |",
        "+3.00 ≥ +2.50 pass |",
        "-0.50 ≥ -0.30 **fail** |",
        "20.0% ≤ 10.0% **fail** |",
        "1.0% ≤ 2.0% pass |",
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
    facts |= {"background": 0.0005}
    (tmp_path / "overhead_results.json").write_text(json.dumps(facts), encoding="utf-8")
    table = tables.table("overhead", tmp_path)
    assert "15,000 CIFAR-100 images, B = 32, 468 steps of 40.0 ms, 150 of each loop timed." in table
    assert "| planning | 0.600 | 3.00% |" in table
    assert "| together | 0.720 | 3.60% by the clock, 4.20% of the processors' time |" in table
    assert table.endswith("| the background, where it is on | 0.234 | 1.17% |")


def test_plan_ahead_table_shows_waiting_beside_the_bar(tmp_path: Path) -> None:
    path = tmp_path / "overhead_results.json"
    path.write_text('{"epoch": 20.0}', encoding="utf-8")
    assert tables.table("plan-ahead", tmp_path) == tables.ABSENT
    rows = [
        {"set": name, "seed": seed, "plan_ahead": ahead, "waited": 1.0 - ahead, "epoch": 50.0, "top1": 0.3 + seed / 100}
        | {"share": (1.0 - ahead) / 50}
        for name in ("images", "pairs")
        for ahead in (0.0, 0.1)
        for seed in range(3)
    ]
    facts = {"waiting": {"epochs": 4, "rows": rows, "summary": waiting.waiting_summary(rows)}}
    path.write_text(json.dumps(facts), encoding="utf-8")
    lines = tables.table("plan-ahead", tmp_path).splitlines()
    assert lines[2:4] == [
        "| images | 0 | 1.000 | 50.00 | 2.00% | – | 31.0 ± 1.0 % |",
        "| images | 0.1 | 0.900 | 50.00 | 1.80% | 0.5% | 31.0 ± 1.0 % |",
    ]
    assert lines[-1] == "4 epochs, 3 seeds: means ± standard deviation."


def test_tables_of_large_sets_keep_measured_and_paper_apart(tmp_path: Path) -> None:
    assert tables.table("scale", tmp_path) == tables.table("scale-on-paper", tmp_path) == tables.ABSENT
    gib, million = 2**30, 1_000_000
    cells = [
        {
            "rows": rows,
            "seconds": seconds,
            "peak": gib,
            "files": 512 * rows,
            "moved": 520 * rows,
            "loss": 1.5,
            "cells": 8,
        }
        for rows, seconds in ((million, 40.0), (10 * million, 500.0))
    ]
    workers = [{"rows": million, "seconds": seconds, "moved": gib / 2} for seconds in (72.0, 45.0)]
    facts = {"cells": cells, "whole": cells[0] | {"seconds": 30.0}, "workers": workers}
    (tmp_path / "scale_results.json").write_text(json.dumps(facts), encoding="utf-8")
    lines = tables.table("scale", tmp_path).splitlines()
    assert lines[2] == "| 1,000,000 | in one piece | 30 | 30.0 | 1.00 GiB | 0.48 GiB | 1.5000 |"
    assert lines[4] == "| 10,000,000 | in 8 cells | 500 | 50.0 | 1.00 GiB | 4.77 GiB | 1.5000 |"
    assert lines[-1].startswith("Two workers are 1.60 times as fast as one worker of one thread: 45 s instead of 72 s")
    # A pair takes 72 µs of one worker, 1.25 times as much in a large set, and 1.25 times as much beside others.
    hours = 72e-6 * 1.25 * 1.25 * 1e9 / 16 / 3600
    paper = tables.table("scale-on-paper", tmp_path).splitlines()[3:]
    assert paper[0] == f"| 1,000,000,000 | 1 | {hours:.1f} h | {hours:.1f} | 1.55 TB | 0.52 TB |"
    assert paper[1] == f"| 1,000,000,000 | 10 | {6 * hours:.0f} min | {hours:.1f} | 1.55 TB | 0.52 TB |"


def test_the_table_of_few_centers_compares_with_one_piece(tmp_path: Path) -> None:
    facts = {"whole": 2.0, "shuffled": 0.1, "rows": [{"centers_in_cell": 32.0, "loss": 1.9}]}
    (tmp_path / "few_centers_results.json").write_text(json.dumps(facts), encoding="utf-8")
    assert tables.table("few-centers", tmp_path).splitlines()[::2] == [
        "| centres to a cell | 32 | shuffled |",
        "| loss kept | 95% | 5% |",
    ]


def test_a_table_that_nobody_makes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a table must be one of figures, .*; got speed"):
        tables.rewritten("<!-- begin speed -->\n<!-- end speed -->", tmp_path)
