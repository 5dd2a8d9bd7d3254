"""The demo, at a size for tests: it trains, compares, reports, answers, and goes on after an interrupt."""

import errno
import html
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.conftest import OpenPage

from batchcut.cli import main
from batchcut.cli._output import as_json
from batchcut.data import Pairs, load, load_functions
from batchcut.demo import METHODS, DemoData, Outcome, _workers, demo_config, run_demo
from batchcut.report import read_search
from batchcut.training import DivergedError, to_toml, trained_model

QUICK = ("--data", "digits", "--quick", "--seeds", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    """One seed, stopped by an interrupt as soon as a run has begun, and taken to its end."""
    command = [sys.executable, "-m", "batchcut", "demo", *QUICK, "--out", str(folder)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not list(folder.glob("*/config.toml")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all processes of the group get it
    printed, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; the same command goes on" in error
    assert "Traceback" not in error
    assert printed == ""
    return run_demo(folder, data="digits", seeds=1, quick=True, workers=1)


@pytest.mark.slow
def test_all_methods_are_compared_at_equal_steps(outcome: Outcome) -> None:
    assert [row.method for row in outcome.rows] == list(METHODS)
    assert {row.steps for row in outcome.rows} == {36}
    assert outcome.rows[0].planning < 0.5
    assert all(0 <= row.top1 <= 1 and row.planning < row.seconds for row in outcome.rows)
    assert [row.gain is None for row in outcome.rows] == [True, False, False, False]
    assert outcome.rows[0].effective_size == 16
    assert all(1 <= row.effective_size <= 192 for row in outcome.rows)
    assert "one seed is no verdict" in outcome.finding
    assert outcome.trained


@pytest.mark.slow
def test_the_search_is_compiled_before_the_first_run(tmp_path: Path) -> None:
    """In a process that has no compiled code at hand, as on a new machine."""
    program = """
import sys
from pathlib import Path
from batchcut.demo import run_demo

def compiled():
    return {path.name for path in Path(sys.argv[2]).rglob("*.nbc") if "selection" in str(path)}

seen = {}
observe = lambda event: seen.setdefault(event["event"], compiled())
run_demo(sys.argv[1], data="digits", seeds=1, quick=True, workers=1, observe=observe)
assert list(seen)[:6] == ["reads", "read", "compiles", "compiled", "starts", "begin"], list(seen)
assert not seen["compiles"] and seen["compiled"] == compiled(), compiled() - seen["compiled"]
"""
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", program, str(tmp_path / "out"), str(cache)]
    assert subprocess.run(command, env=os.environ | {"NUMBA_CACHE_DIR": str(cache)}, check=False).returncode == 0


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("data", ["functions", "digits"])
def test_settings_differ_in_the_selector_alone(data: DemoData, quick: bool) -> None:
    configs = [demo_config(method, seed=0, data=data, quick=quick) for method in METHODS]
    texts = [to_toml(config).partition("[selection.selector]") for config in configs]
    assert len({before for before, _, _ in texts}) == 1
    assert len({after.partition("\n[")[2] for _, _, after in texts}) == 1


@pytest.mark.slow
def test_the_command_prints_a_table_and_the_path_last(
    outcome: Outcome, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*more: str) -> str:
        with pytest.raises(SystemExit, match="0"):
            main(["demo", *QUICK, "--out", str(folder), *more])
        return capsys.readouterr().out

    lines = printed().splitlines()
    assert lines[-1] == str(outcome.report)
    for row in outcome.rows:
        assert any(row.method in line and f"{row.top1 * 100:.1f}" in line for line in lines)
    assert outcome.finding in " ".join(" ".join(lines).split())
    assert outcome.finding in html.unescape(outcome.report.read_text())
    assert json.loads(printed("--json")) == json.loads(as_json(outcome.as_dict()))
    assert printed("--quiet") == ""


@pytest.mark.slow
def test_a_folder_with_other_runs_is_refused(outcome: Outcome, folder: Path) -> None:
    with pytest.raises(
        ValueError, match=r"shuffle-0 holds a run with other settings \(epochs = 3 there, epochs = 14 here\); remove it"
    ):
        run_demo(folder, data="digits", seeds=1)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (DivergedError("training has diverged"), ArithmeticError, "run: training has diverged"),
        (OSError(errno.ENOSPC, "No space left on device"), OSError, "No space left on device: '.*run'"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), PermissionError, "Permission denied: 'x'"),
        (ValueError("it must not be"), ValueError, "run: it must not be"),
    ],
)
def test_an_error_of_a_worker_is_told_as_the_kind_that_it_is(
    error: Exception, kind: type[Exception], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(_workers, "_taken_to_its_end", fail)
    jobs = [_workers.Job(method="Cut", seed=0, config=demo_config("Cut", seed=0), run=tmp_path / "run")]
    data: Any = queue.SimpleQueue()
    data.put(load("digits"))
    tasks: Any = queue.SimpleQueue()
    tasks.put(0)
    news: Any = queue.Queue()
    _workers._work(jobs, data, tasks, news)
    with pytest.raises(kind, match=text) as told:
        _workers._follow(jobs, [], news, print)
    assert getattr(told.value, "errno", None) == getattr(error, "errno", None)


@pytest.mark.parametrize(("code", "text"), [(-signal.SIGKILL, "was ended by SIGKILL"), (3, "ended with exit code 3")])
def test_a_worker_that_is_gone_is_no_wrong_use(code: int, text: str) -> None:
    news, processes, jobs = queue.Queue[Any](), [SimpleNamespace(exitcode=code)], [None]
    with pytest.raises(ChildProcessError, match=text):
        _workers._follow(jobs, processes, news, print)  # type: ignore[arg-type]


def test_its_report_opens_in_a_browser(outcome: Outcome, open_page: OpenPage) -> None:
    page = open_page(outcome.report)
    assert page.locator("#plan option").count() == 6
    assert page.locator("#members button").count() == 16
    assert page.locator("section").count() == 7
    assert outcome.report.stat().st_size < 5_000_000


@pytest.mark.slow
def test_runs_on_other_versions_of_the_libraries_are_refused(
    searched: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index of today's functions by models of yesterday's features would find nonsense; so would a mixed race."""
    folder = tmp_path / "demo"
    shutil.copytree(searched.report.parent, folder)
    here = load_functions().split.train.name
    environment = folder / "cut-200" / "environment.json"
    environment.write_text(environment.read_text().replace(here, "functions 0123"))
    text = rf"cut-200 holds a run on other data \(functions 0123 there, {here} on this machine now, "
    before = (folder / "report.html").read_bytes()
    with pytest.raises(ValueError, match=text):
        run_demo(folder, seeds=1, quick=True)
    (folder / "shuffle-200" / "result.json").unlink()
    with pytest.raises(ValueError, match=text):
        run_demo(folder, seeds=1, quick=True)
    assert (folder / "report.html").read_bytes() == before


def test_a_question_that_cannot_be_answered_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ask must be left alone unless the data are functions, which can be searched"):
        run_demo(tmp_path / "out", data="digits", ask=["sort"])
    for question in ("", " ", "…"):
        with pytest.raises(ValueError, match="ask must have a letter from a to z or a digit; got"):
            run_demo(tmp_path / "out", ask=["sort", question])
    with pytest.raises(ValueError, match="data must be one of 'functions', 'digits'; got 'nothing'"):
        run_demo(tmp_path / "out", data="nothing")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The demo on functions, with few of them and few steps."""
    return run_demo(tmp_path_factory.mktemp("functions"), seeds=1, quick=True, workers=1)


@pytest.mark.slow
def test_functions_are_found(
    searched: Outcome, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {row.steps for row in searched.rows} == {40}
    assert len(searched.asked) == 3
    assert searched.searched.startswith("Of the ")
    assert searched.searched in searched.report.read_text(encoding="utf-8")
    assert {len(answers) for asked in searched.asked for answers in asked.answers.values()} == {5}
    assert [tuple(asked.answers) for asked in searched.asked] == [tuple(asked.places) for asked in searched.asked]
    assert [tuple(asked.answers) for asked in searched.asked] == [("Shuffle", "Cut")] * 3

    def refuse(*_: object) -> None:
        raise AssertionError("what is finished is neither trained, read nor written again")

    for name in ("_train", "_write", "load_functions"):
        monkeypatch.setattr(f"batchcut.demo._demo.{name}", refuse)
    folder, question = searched.report.parent, searched.asked[0].question
    words = ["demo", "--quick", "--seeds", "1", "--out", str(folder), "--ask", question, "--ask", "sort a [list]"]
    with pytest.raises(SystemExit, match="0"):
        main(words)
    printed = capsys.readouterr().out
    assert "sort a [list]" in printed
    assert "top-1" not in printed  # nothing was trained: the answers are what was asked for
    assert searched.asked[0].answers["Cut"][0].name in printed
    assert printed.count(f"and {searched.asked[0].places['Cut']:,} by Cut") == 1
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)["asked"]
    assert found[0] == json.loads(json.dumps(searched.asked[0].as_dict()))
    assert (found[1]["question"], found[1]["places"]) == ("sort a [list]", {})


@pytest.mark.slow
def test_the_index_finds_nearly_what_the_models_find(searched: Outcome) -> None:
    """Rounded numbers and fewer n-grams against the models as they were trained."""
    functions = load_functions()
    index = read_search(searched.report.parent / "search.json")
    parts = (functions.split.train, functions.split.test)
    v = np.concatenate([part.v for part in parts if isinstance(part, Pairs)])
    queries = functions.test.sentences[:200]
    for method in ("Shuffle", "Cut"):
        model = trained_model(searched.report.parent / f"{method.lower()}-200", functions.split)
        u = np.concatenate([functions.encode(queries), np.zeros((len(v) - len(queries), v.shape[1]), np.float32)])
        left, right = model.pairs(Pairs("all", u, v))
        exact = (left[: len(queries)] @ right.T).numpy()
        found = [
            (answer.similarity, exact[row, index.names.index(answer.name)])
            for row, query in enumerate(queries)
            for answer in index.answers(query)[method]
        ]
        ours, true = np.array(found).T
        best = np.sort(exact, axis=1)[:, -5:]
        assert np.abs(ours - true).mean() < 0.01
        assert best.mean() - true.mean() < 0.003  # few steps leave many nearly alike: their order says little


def test_the_search_in_its_report_finds_the_same(searched: Outcome, open_page: OpenPage) -> None:
    page = open_page(searched.report)
    page.wait_for_selector("#answers li")
    for asked in searched.asked:
        page.fill("#question", asked.question)
        for part, answers in zip(page.locator("#answers ol").all(), asked.answers.values(), strict=True):
            assert part.locator("code").all_text_contents() == [answer.name for answer in answers]
    assert searched.report.stat().st_size < 8_000_000
