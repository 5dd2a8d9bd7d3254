import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.report._folders import write_run

from batchcut import cli
from batchcut.cli._main import VERBS, parsed
from batchcut.cli._theory import Theory
from batchcut.theory import claims

BASH = shutil.which("bash")
QUICK = "lem:lclipnonquasiconvex"


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    code = stop.value.code or 0
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


def test_strict_counts_known_mistakes() -> None:
    assert run("theory", QUICK, "--quiet", "--strict") == 1


def test_quiet_json_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("theory", QUICK, "--quiet", "--json") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_closed_pipe_is_no_failed_check(flag: list[str]) -> None:
    command = [sys.executable, "-m", "batchcut", "theory", QUICK, *flag]
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert result.returncode == 141
    assert "Traceback" not in result.stderr


def test_output_without_greek_letters() -> None:
    command = [sys.executable, "-m", "batchcut", "theory", "thm:ncb-is-necessary1"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, env=environment, capture_output=True)
    assert result.returncode == 0
    assert b"fails (erratum 10)" in result.stdout


def test_unknown_label_names_a_close_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("theory", "thm:Toy-exampel") == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "batchcut: LABEL must be a name that is known; got 'thm:Toy-exampel'"
    assert second.startswith("did you mean thm:Toy-example? `batchcut theory` (about a minute) names all ")


def test_debug_shows_the_traceback_and_leaves_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("theory", "thm:nonsense") == 2
    said = capsys.readouterr().err
    assert run("theory", "thm:nonsense", "--debug") == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last):")
    assert shown.endswith(said)


@pytest.mark.parametrize("words", [("theory", "--nonsense"), ("nonsense",)])
def test_wrong_use(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 0
    assert "theory" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(VERBS))
def test_every_verb_has_help_with_examples_that_it_understands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "--help") == 0
    printed = capsys.readouterr().out
    examples = getattr(VERBS[name], "examples", ())
    assert examples
    for command, meaning in examples:
        assert f"    {command}\n" in printed
        assert meaning in printed
        assert command.split()[:2] == ["batchcut", name]
        assert isinstance(parsed(command.split()[1:]), VERBS[name])
    if name == "paper":  # its options are those of its own verbs
        assert run(name, "run", "--help") == 0
        printed = capsys.readouterr().out
    for word in ("--json", "--quiet", "default:"):
        assert word in printed
    assert "default: None" not in printed
    assert "default: )" not in printed


def test_general_help_has_a_line_for_each_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    printed = capsys.readouterr().out.splitlines()
    for name in VERBS:
        assert sum(line.startswith(f"  {name} ") for line in printed) == 1


def completed(script: str, words: str) -> list[str]:
    """What bash offers for the last word, a line each."""
    parts = words.split(" ")
    ask = f"COMP_WORDS=(batchcut {shlex.join(parts)}); COMP_CWORD={len(parts)}; _tyro_batchcut"
    show = 'for word in "${COMPREPLY[@]}"; do echo "$word"; done; complete -p batchcut'
    done = subprocess.run([str(BASH), "-c", f"{script}\n{ask}\n{show}"], capture_output=True, text=True, check=True)
    *offered, registered = done.stdout.splitlines()
    assert registered == "complete -o default -F _tyro_batchcut batchcut"  # paths where nothing is offered
    return offered


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_bash_completes_verbs_options_and_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--tyro-print-completion", "bash") == 0
    script = capsys.readouterr().out
    assert completed(script, "re") == ["report"]
    assert completed(script, "demo --s") == ["--seeds"]
    assert set(completed(script, "evaluate --corrupted ")) == {"made", "cifar100-c", "tiny-imagenet-c"}
    assert completed(script, "report d") == []
    for verb in ("select", "demo", "train"):
        offered = completed(script, f"{verb} -")
        assert {"--out", "-o", "--json"} < set(offered)
        assert all(re.fullmatch("--?[a-z-]+", word) for word in offered)
    assert run("--tyro-write-completion", "bash", str(tmp_path / "script")) == 0
    assert completed((tmp_path / "script").read_text(encoding="utf-8"), "report d") == []


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ModuleNotFoundError("No module named 'kornia'"), 2, 'pip install "batchcut[train,report]"'),
        (ImportError("pictures need Pillow"), 2, "pictures need Pillow"),
        (PermissionError(13, "Permission denied", "x"), 2, "batchcut: x: Permission denied; choose another place, or "),
        (OSError("three words only"), 2, "batchcut: three words only\n"),
        (ChildProcessError("it was ended by SIGKILL"), 1, "batchcut: it was ended by SIGKILL\n"),
        (RuntimeError("first\nsecond"), 1, "RuntimeError: first\nThe same with --debug shows where."),
    ],
)
def test_no_traceback_without_debug(
    error: Exception, code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(Theory, "run", fail)
    assert run("theory") == code
    printed = capsys.readouterr().err
    assert words in printed
    assert len(printed.splitlines()) <= 2
    assert run("theory", "--debug") == code
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "what"),
    [((), "RUN must name at least one run; `batchcut train`"), (("nowhere",), "nowhere is not there")],
)
def test_report_says_what_it_needs(words: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report", *words) == 2
    assert what in capsys.readouterr().err


def test_report_prints_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "cut")
    out = tmp_path / "report.html"
    assert run("report", str(tmp_path / "cut"), "--out", str(out)) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert run("report", str(tmp_path / "cut"), "--out", str(out), "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(out), "bytes": out.stat().st_size}
    assert run("report", str(tmp_path / "cut"), "--out", str(out), "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("batchcut 0.1.0 (Python 3.")
    assert "torch 2." in printed


def test_an_interrupt_while_it_loads(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Stopped:
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "batchcut.cli._main", Stopped())
    assert run("theory") == 130
    assert capsys.readouterr().err == "\nbatchcut: interrupted\n"


def test_a_wrong_folder_of_images_is_refused_whatever_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("paper", "run", "fig:toy_example", "--quick", "--out", str(tmp_path / "out"), "--cifar", str(tmp_path))
    assert run(*words) == 2
    assert "--cifar must be the folder cifar-100-python, which holds the file train; got" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_interrupt_gives_exit_code_130_and_no_traceback() -> None:
    code = """
import signal, sys
from batchcut import cli, theory

tried = theory.run_checks

def told(label):
    print("begun", file=sys.stderr, flush=True)
    yield from tried(label)

theory.run_checks = told
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background takes away
cli.main(["theory"])
"""
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"
    os.kill(process.pid, signal.SIGINT)
    printed, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (printed, error) == ("", "\nbatchcut: interrupted\n")
