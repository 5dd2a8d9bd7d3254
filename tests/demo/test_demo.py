"""The demo, at a size for tests: it trains, compares, reports, and goes on after an interrupt."""

import errno
import json
import os
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import OpenPage

from batchcut.cli import main
from batchcut.demo import METHODS, Outcome, _workers, demo_config, run_demo
from batchcut.training import DivergedError, to_toml


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    """One seed, stopped by an interrupt as soon as a run has begun, and taken to its end."""
    command = [sys.executable, "-m", "batchcut", "demo", "--quick", "--seeds", "1", "--out", str(folder)]
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
    return run_demo(folder, seeds=1, quick=True, workers=1)


@pytest.mark.slow
def test_all_methods_are_compared_at_equal_steps(outcome: Outcome) -> None:
    assert [row.method for row in outcome.rows] == list(METHODS)
    assert {row.steps for row in outcome.rows} == {36}
    assert outcome.rows[0].planning < 0.5
    assert all(0 <= row.top1 <= 1 and row.mean_loss > 0 for row in outcome.rows)


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
run_demo(sys.argv[1], seeds=1, quick=True, workers=1, observe=lambda event: seen.setdefault(event["event"], compiled()))
assert list(seen)[:3] == ["compiles", "compiled", "begins"], list(seen)
assert not seen["compiles"] and seen["compiled"] == compiled(), compiled() - seen["compiled"]
"""
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", program, str(tmp_path / "out"), str(cache)]
    assert subprocess.run(command, env=os.environ | {"NUMBA_CACHE_DIR": str(cache)}, check=False).returncode == 0


def test_settings_differ_in_the_selector_alone() -> None:
    texts = [to_toml(demo_config(method, seed=0)).partition("[selection.selector]") for method in METHODS]
    assert len({before for before, _, _ in texts}) == 1
    assert len({after.partition("\n[")[2] for _, _, after in texts}) == 1


@pytest.mark.slow
def test_the_command_prints_a_table_and_the_path_last(
    outcome: Outcome, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*more: str) -> str:
        with pytest.raises(SystemExit, match="0"):
            main(["demo", "--quick", "--seeds", "1", "--out", str(folder), *more])
        return capsys.readouterr().out

    lines = printed().splitlines()
    assert lines[-1] == str(outcome.report)
    for row in outcome.rows:
        assert any(row.method in line and f"{row.mean_loss:.3f}" in line for line in lines)
    rows = [row.as_dict() for row in outcome.rows]
    assert json.loads(printed("--json")) == {"methods": rows, "report": str(outcome.report)}
    assert printed("--quiet") == ""


@pytest.mark.slow
def test_a_folder_with_other_runs_is_refused(outcome: Outcome, folder: Path) -> None:
    with pytest.raises(
        ValueError, match=r"shuffle-0 holds a run with other settings \(epochs = 3 there, epochs = 14 here\); remove it"
    ):
        run_demo(folder, seeds=1)


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
    tasks: Any = queue.SimpleQueue()
    tasks.put(0)
    news: Any = queue.Queue()
    _workers._work(jobs, tasks, news)
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
