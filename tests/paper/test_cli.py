import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.paper._items import Counter, item

from batchcut import cli


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    code = stop.value.code
    assert isinstance(code, int)
    return code


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Counter:
    counter = Counter(2)
    for place in ("batchcut.paper", "batchcut.paper.page._run"):
        monkeypatch.setattr(f"{place}.ITEMS", (item(counter),))
    return counter


def test_list_names_every_item_with_its_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("paper", "list") == 0
    printed = capsys.readouterr().out
    for expected in ("fig:sim_theorem_base_N_16", "theory", "minutes", "with --quick"):
        assert expected in printed


def test_list_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("paper", "list", "--json") == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert first["label"] == "fig:ful_mini_loss_compare"
    assert first["minutes_quick"] < first["minutes"]


def test_run_prints_the_verdict_and_writes_the_page(
    small: Counter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("paper", "run", "all", "--quick", "--out", str(tmp_path)) == 0
    printed = capsys.readouterr().out
    for expected in ("fig:small: does not agree", "≠ paper: 1", "here:  2", "why:   it is not 1", "index.html"):
        assert expected in printed
    assert "Small" in (tmp_path / "index.html").read_text()
    assert run("paper", "run", "fig:small", "--quick", "--out", str(tmp_path)) == 0
    assert "from before" in capsys.readouterr().out
    assert small.calls == 1
    assert run("paper", "run", "fig:small", "--quick", "--force", "--out", str(tmp_path)) == 0
    assert small.calls == 2


def test_run_json_and_quiet(small: Counter, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("paper", "run", "all", "--json", "--seed", "3", "--out", str(tmp_path)) == 0
    (outcome,) = json.loads(capsys.readouterr().out)
    assert (outcome["verdict"], outcome["reused"], outcome["settings"]["seed"]) == ("does not agree", False, 3)
    assert run("paper", "run", "all", "--quiet", "--json", "--out", str(tmp_path)) == 0
    assert capsys.readouterr().out == ""


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("paper", "run", "fig:nonsense", "--out", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert "got 'fig:nonsense'" in error
    assert "Traceback" not in error
    assert run("paper", "run") == 2
    assert "NAME must be 'all' or some of the " in capsys.readouterr().err
    (tmp_path / "taken").write_text("")
    assert run("paper", "run", "fig:concept", "--out", str(tmp_path / "taken")) == 2
    assert "out must be a folder" in capsys.readouterr().err


INTERRUPTED = """
import signal, sys, time
from batchcut import cli
from batchcut.paper.tables import _claims

def waits(label):
    print("begun", file=sys.stderr, flush=True)
    time.sleep(60)
    yield

_claims.run_checks = waits
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background takes away
cli.main(["paper", "run", "theory", "--out", sys.argv[1]])
"""


@pytest.mark.slow
def test_interrupt_is_clean(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"
    os.kill(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in error
    assert "Traceback" not in error
    assert not (tmp_path / "theory" / "result.json").exists()


@pytest.mark.alone
def test_everything_quick_ends_within_five_minutes(tmp_path: Path) -> None:
    started = time.perf_counter()
    command = [sys.executable, "-m", "batchcut", "paper", "run", "all", "--quick", "--json", "--out", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert time.perf_counter() - started < 300
    listed = subprocess.run([*command[:4], "list", "--json"], capture_output=True, text=True, check=True)
    labels = [entry["label"] for entry in json.loads(listed.stdout)]
    outcomes = {outcome["label"]: outcome for outcome in json.loads(result.stdout)}
    assert list(outcomes) == labels
    page = (tmp_path / "index.html").read_text()
    assert all(label in page for label in labels)
    for label in labels:
        names = {path.name for path in (tmp_path / label.replace(":", "-")).iterdir()}
        assert names == {"result.json", "verdict.txt", "figure.svg", "figure-dark.svg", "figure.png"}
