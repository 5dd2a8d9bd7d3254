import json
import os
import signal
import subprocess
import sys
import time

import pytest

from batchcut import cli
from batchcut.theory import claims

QUICK = "lem:lclipnonquasiconvex"


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    code = stop.value.code
    assert isinstance(code, int)
    return code


def test_theory_prints_label_claim_margin_and_detail(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("theory", QUICK) == 0
    printed = capsys.readouterr().out
    for expected in (QUICK, "0.01263", "holds", "fails (erratum 1)", "3 tried: 2 hold", "midpoint: 1.3992"):
        assert expected in printed


def test_theory_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("theory", QUICK, "--json") == 0
    first, _, second = json.loads(capsys.readouterr().out)
    assert first["label"] == QUICK
    assert first["holds"] is True
    assert first["margin"] == pytest.approx(0.01263, abs=1e-5)
    assert (second["holds"], second["erratum"], second["as_expected"]) == (False, 1, True)


def test_theory_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("theory", QUICK, "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_failed_claim_gives_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(claims._quasiconvexity, "contrastive_loss", lambda u, v: -(u * v).sum())
    assert run("theory", QUICK) == 1
    assert "came out other than expected" in capsys.readouterr().out


def test_unknown_label_names_the_labels(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("theory", "thm:nonsense") == 2
    error = capsys.readouterr().err
    assert error.startswith("batchcut: label must be one of thm:standard-full-batch-case1")
    assert "got 'thm:nonsense'" in error
    assert "Traceback" not in error


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(ValueError, match="label must be one of"):
        cli.main(["theory", "thm:nonsense", "--debug"])


@pytest.mark.parametrize("words", [("theory", "--nonsense"), ("nonsense",)])
def test_wrong_use(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 0
    assert "theory" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("batchcut 0.1.0 (Python 3.")
    assert "torch 2." in printed


def test_interrupt_gives_exit_code_130_and_no_traceback() -> None:
    command = [sys.executable, "-m", "batchcut", "theory"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(5)
    os.kill(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in error
    assert "Traceback" not in error
