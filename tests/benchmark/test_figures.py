"""The lines of figures.sh, and the commands that the documents name, are ones that the scripts take."""

import argparse
import importlib.util
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from benchmarks import tables
from benchmarks.loops.runs import Asked, Results, Row

from batchcut.data import Split

ROOT = Path(__file__).parents[2]
RESUMED = ("training", "batch_sizes", "rivals_training", "choices", "advice", "finetune", "gain")
COMMANDS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
RECORDER = """#!/bin/sh
for argument; do printf '%s\\n' "$argument" >> "$RECORD"; done
printf '\\n' >> "$RECORD"
"""


class ParsedError(Exception):
    """Ends a script that was told what to do."""


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts end where they have parsed their arguments."""
    whole = argparse.ArgumentParser.parse_args

    def parse_args(*arguments: object, **named: object) -> None:
        whole(*arguments, **named)  # type: ignore[call-overload]
        raise ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)


def check(script: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the script parse its arguments; one that it does not know ends it by another exception."""
    monkeypatch.setattr("sys.argv", [f"{script}.py", *arguments])
    with pytest.raises(ParsedError):
        importlib.import_module(f"benchmarks.{script}").main()


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What figures.sh gives to Python where nothing is stored: script and arguments of each call."""
    folder = tmp_path_factory.mktemp("figures")
    python, record = folder / "python", folder / "record"
    python.write_text(RECORDER)
    python.chmod(0o755)
    settings = {"RECORD": str(record), "RESULTS": str(folder), "PATH": "/usr/bin:/bin"}
    command = ["sh", "benchmarks/figures.sh", str(python), "CIFAR", "PAIRS.npz", "LISTS"]
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [call.splitlines() for call in record.read_text().strip().split("\n\n")]


def test_each_line_of_figures_is_one_that_its_script_takes(
    lines: list[list[str]], parse: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = [(Path(script).stem, arguments) for script, *arguments in lines if script != "-m"]
    assert len(measured) > 20
    for script, arguments in measured:
        if script != "selection":
            check(script, arguments, monkeypatch)


def test_the_line_of_selectors_is_one_that_its_script_takes(
    lines: list[list[str]], parse: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss", reason="the extra bench has the rivals")
    check("selection", next(line[1:] for line in lines if "selection.py" in line[0]), monkeypatch)


@pytest.mark.parametrize("script", RESUMED)
def test_all_that_figures_asks_for_is_stored(
    lines: list[list[str]], script: str, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new setting of `batchcut train`, say, must not have all be measured anew."""
    missing: list[Row] = []

    def add(results: Results, key: Row, *_: object, name: str = "runs") -> None:
        missing.extend([] if results.has(key, name=name) else [key])

    def add_all(results: Results, asked: list[Asked], *, jobs: int) -> None:
        for key, *_ in asked:
            add(results, key)

    monkeypatch.setattr(Results, "add", add)
    monkeypatch.setattr(Results, "add_all", add_all)
    monkeypatch.setattr("benchmarks.loops.runs.load", lambda _: split)
    monkeypatch.setattr("benchmarks.gain.load", lambda _: None)
    calls = [arguments for path, *arguments in lines if Path(path).stem == script]
    assert calls
    for arguments in calls:
        shutil.copy(tables.RESULTS / f"{script}_results.json", tmp_path)
        here = [str(tmp_path / Path(word).name) if word.endswith((".json", ".svg")) else word for word in arguments]
        monkeypatch.setattr("sys.argv", [f"{script}.py", *here])
        importlib.import_module(f"benchmarks.{script}").main()
    assert missing == []


def test_a_line_that_its_script_does_not_take_is_found(parse: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        check("gain", ["PAIRS.npz", "--sizes", "3"], monkeypatch)
    with pytest.raises(ModuleNotFoundError):
        check("step_signal", [], monkeypatch)


def test_figures_makes_all_that_tables_are_made_of(lines: list[list[str]]) -> None:
    written = {Path(argument).name for line in lines for argument in line if argument.endswith("_results.json")}
    assert {file for source in tables.SOURCES.values() for file in source.files} <= written
    assert {path.name for path in tables.RESULTS.glob("*.json")} <= written
    assert Path(lines[-1][0]).stem == "tables"


def test_what_is_stored_is_not_measured_again(tmp_path: Path) -> None:
    stored = tmp_path / "batch_norm_results.json"
    stored.write_text("{}")
    command = ["sh", "benchmarks/figures.sh", "echo", "CIFAR", "PAIRS.npz"]
    settings = {"RESULTS": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True)
    assert "== batch_norm is stored" in done.stdout
    assert "benchmarks/batch_norm.py" not in done.stdout


def test_a_script_that_breaks_is_named_in_the_end_and_keeps_no_other_from_running(tmp_path: Path) -> None:
    settings = {"RESULTS": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = ["sh", "benchmarks/figures.sh", "false", "CIFAR", "PAIRS.npz"]
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.count("benchmarks/tables.py") == 2  # begun, and named


def documented() -> list[list[str]]:
    """Commands with a script of ours, from the documents."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    found = re.findall(r"python (benchmarks/\w+\.py[^`\n|]*)", text)
    return [shlex.split(re.sub(r"\[|\]", "", command)) for command in found if "NAME" not in command]


def test_commands_in_the_documents_are_ones_that_scripts_take(parse: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert documented()
    for script, *arguments in documented():
        if importlib.util.find_spec("faiss") or "selection.py" not in script:
            check(Path(script).stem, arguments, monkeypatch)


def test_the_map_names_every_command() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    table = text.split("What commands share")[0]
    assert sorted(re.findall(r"`(\w+)\.py`", table)) == COMMANDS
