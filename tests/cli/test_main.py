import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.report._folders import write_run

from batchcut import cli, scale
from batchcut.cli._app import VERBS, parsed
from batchcut.cli._paper import List, Run
from batchcut.cli._theory import Theory
from batchcut.paper import claims
from batchcut.report import write_plan_report
from batchcut.selection import Cut, Shuffle

BASH = shutil.which("bash")
FULL = Path("/dev/full")
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


def batchcut(*words: str, stdout: int, closed: str = "") -> subprocess.CompletedProcess[str]:
    """A process of its own, buffered as users have it; `closed` is a stream that the shell closes, such as `>&-`."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "batchcut", *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(command, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True)


PRINTS = [
    ("theory", QUICK),
    ("theory", QUICK, "--json"),
    ("--help",),
    ("--version",),
    ("--completion", "bash"),
    ("train", "--help"),
    ("train", "--show"),
    ("train", "--recipe", "list"),
]


@pytest.mark.slow
@pytest.mark.parametrize("words", PRINTS, ids=" ".join)
def test_closed_pipe_is_no_failed_check(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = batchcut(*words, stdout=writer)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", PRINTS[1:], ids=" ".join)
def test_a_full_disk_under_the_output(words: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        result = batchcut(*words, stdout=full.fileno())
    assert result.returncode == 1
    assert result.stderr.startswith("batchcut: No space left on device; ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("--help",), ("theory", QUICK)], ids=" ".join)
def test_output_that_was_closed_before(words: tuple[str, ...]) -> None:
    result = batchcut(*words, stdout=subprocess.PIPE, closed=">&-")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_errors_that_nobody_can_read() -> None:
    result = batchcut("theory", "--nonsense", stdout=subprocess.PIPE, closed="2>&-")
    assert (result.returncode, result.stdout) == (2, "")


@pytest.mark.slow
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
    assert run(*name.split(), "--help") == 0
    printed = capsys.readouterr().out
    examples = getattr(VERBS[name], "examples", ())
    assert examples
    for command, meaning in examples:
        assert f"    {command}\n" in printed
        assert meaning in printed
        assert command.startswith(f"batchcut {name}")
        assert isinstance(parsed(shlex.split(command)[1:]), VERBS[name])
    for word in ("--json", "--quiet", "default:"):
        assert word in printed
    assert "default: None" not in printed
    assert "default: ()" not in printed


def test_help_of_a_verb_that_has_verbs_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("paper", "--help") == 0
    printed = capsys.readouterr().out
    for word in ("list", "run", "Name every item", "Compute items"):
        assert word in printed
    for kind in (List, Run):
        for command, meaning in kind.examples:
            assert f"    {command}\n        {meaning}\n" in printed


def test_general_help_has_a_line_for_each_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    printed = capsys.readouterr().out.splitlines()
    for name in {name.split()[0] for name in VERBS} | {"--completion", "--version", "--help"}:
        assert sum(line.startswith(f"│ {name} ") for line in printed) == 1


def completed(script: str, words: str, folder: Path) -> list[str]:
    """What bash offers for the last word, a line each."""
    parts = words.split(" ")
    ask = f"COMP_WORDS=(batchcut {shlex.join(parts)}); COMP_CWORD={len(parts)}; _batchcut_lines"
    show = 'for word in "${COMPREPLY[@]}"; do echo "$word"; done; complete -p batchcut'
    command = [str(BASH), "-c", f"{script}\n{ask}\n{show}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    *offered, registered = done.stdout.splitlines()
    assert registered == "complete -o default -o filenames -F _batchcut_lines batchcut"
    return offered


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_bash_completes_verbs_options_choices_and_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my runs").mkdir()
    (tmp_path / "settings.toml").touch()
    assert run("--completion", "bash") == 0
    script = capsys.readouterr().out
    assert sorted(completed(script, "re", tmp_path)) == ["report", "reshard"]
    assert completed(script, "paper r", tmp_path) == ["run"]
    assert completed(script, "demo --s", tmp_path) == ["--seeds"]
    assert completed(script, "paper run x --qui", tmp_path) == ["--quick", "--quiet"]
    assert set(completed(script, "evaluate --corrupted ", tmp_path)) == {"made", "cifar100-c", "tiny-imagenet-c"}
    assert completed(script, "report d", tmp_path) == []
    assert completed(script, "report m", tmp_path) == ["my runs"]
    assert completed(script, "train --config s", tmp_path) == ["settings.toml"]
    for verb in ("select", "reshard", "demo", "train"):
        offered = completed(script, f"{verb} -", tmp_path)
        assert {"--out", "-o", "--json"} < set(offered)
        assert all(re.fullmatch("--?[a-z-]+", word) for word in offered)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_for_other_shells(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--completion", shell) == 0
    script = capsys.readouterr().out
    for word in ("batchcut", "select", "reshard", "batch-size", "tiny-imagenet-c"):
        assert word in script


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


@pytest.mark.parametrize("together", [True, False])
def test_report_of_a_plan(together: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    u, v = np.random.default_rng(0).standard_normal((2, 24, 6)).astype(np.float32)
    plan, file = Shuffle()(u, v, batch_size=4), tmp_path / ("plan.npz" if together else "plan.parquet")
    plan.save(file) if together else scale.write_plan_table(plan, file)
    np.savez(tmp_path / "both.npz", image=u, text=v)
    np.save(tmp_path / "u.npy", u)
    np.save(tmp_path / "v.npy", v)
    (tmp_path / "texts").write_text("".join(f"sample number {place}\n" for place in range(24)))
    names = ["both.npz"] if together else ["u.npy", "v.npy"]
    files = [str(tmp_path / name) for name in names]
    out = tmp_path / "plan.html"
    words = ("--texts", str(tmp_path / "texts"), "--out", str(out))
    assert run("report", str(file), "--embeddings", *files, *words) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert "sample number 17" in out.read_text(encoding="utf-8")


def test_report_of_a_plan_with_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    u, v = np.random.default_rng(0).standard_normal((2, 24, 6)).astype(np.float32)
    groups = np.arange(24) // 3
    plan, out = Cut()(u, v, batch_size=4, groups=groups), tmp_path / "plan.html"
    plan.save(tmp_path / "plan.npz")
    np.savez(tmp_path / "both.npz", u=u, v=v)
    (tmp_path / "groups.txt").write_text("".join(f"{group}\n" for group in groups))
    words = ("--groups", str(tmp_path / "groups.txt"), "--out", str(out))
    assert run("report", str(tmp_path / "plan.npz"), "--embeddings", str(tmp_path / "both.npz"), *words) == 0
    told = {"groups": groups, "title": "batchcut report"}
    expected = write_plan_report(plan, u, v, tmp_path / "expected.html", **told)  # type: ignore[arg-type]
    page, wanted = (re.sub("<tr>.*seconds to plan.*", "", one.read_text("utf-8")) for one in (out, expected))
    assert page == wanted
    capsys.readouterr()
    assert run("report", str(tmp_path), *words) == 2
    assert "--groups must be given with the file of a plan" in capsys.readouterr().err


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


@pytest.mark.slow
def test_interrupt_gives_exit_code_130_and_no_traceback() -> None:
    code = """
import signal, sys
from batchcut import cli, scale
from batchcut.paper import claims

tried = claims.run_checks

def told(label):
    print("begun", file=sys.stderr, flush=True)
    yield from tried(label)

claims.run_checks = told
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background takes away
cli.main(["theory"])
"""
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"
    os.kill(process.pid, signal.SIGINT)
    printed, error = process.communicate(timeout=60)
    assert (process.returncode, printed, error) == (130, "", "\nbatchcut: interrupted\n")
