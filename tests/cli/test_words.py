"""Wrong words are refused in two lines that say what to do; right ones may stand in any order."""

from pathlib import Path
from typing import Any

import pytest

from batchcut import cli
from batchcut.cli._evaluate import Evaluate
from batchcut.cli._main import VERBS, parsed
from batchcut.cli._paper import Paper, Run
from batchcut.cli._report import Report
from batchcut.cli._select import Select
from batchcut.cli._train import Train
from batchcut.cli._words import as_options


def refused(words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that are said where words are refused."""
    with pytest.raises(SystemExit) as stop:
        cli.main(words.split())
    assert stop.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert 1 <= len(lines) <= 2
    assert all(len(line) <= 120 for line in lines)
    return lines


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("select --step x", "there is no option --step"),
        ("evaluate RUN --stpe 3", "there is no option --stpe; did you mean --step?"),
        ("demo --s 3", "there is no option --s; did you mean --seeds?"),
        ("train -x", "there is no option -x"),
        ("evaluate RUN --step x", "--step must be an integer; got 'x'"),
        ("evaluate RUN --test=1.5", "--test must be an integer; got '1.5'"),
        ("select u.npy --batch-size 8 --temperature warm", "--temperature must be a number; got 'warm'"),
        ("select u.npy --batch-size 8 --margin x", "--margin must be a number or none; got 'x'"),
        (
            "select u.npy --batch-size 8 --method best",
            "--method must be one of cut, spectral, ordered, shuffle; got 'best'",
        ),
        ("evaluate RUN --corrupted x", "--corrupted must be one of made, cifar100-c, tiny-imagenet-c; got 'x'"),
        ("evaluate", "RUN must be given"),
        ("select", "U and --batch-size must be given"),
        ("demo --seeds", "--seeds must be followed by an integer"),
        ("report RUN --out --json", "--out must be followed by a path"),
        ("demo --json=yes", "--json takes no value; got 'yes'"),
        ("demo now", "'now' is one word too many: this verb takes options only"),
        ("evaluate a b", "'b' is one word too many: this verb takes nothing after RUN"),
        ("paper run --fast", "there is no option --fast"),
        ("paper list x", "'x' is one word too many: this verb takes options only"),
    ],
)
def test_words_that_a_verb_does_not_take(words: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = refused(words, capsys)
    assert first == f"batchcut: {what}"
    command = " ".join(words.split()[: 2 if words.startswith("paper") else 1])
    assert second == f"`batchcut {command} --help` shows what can be given, with examples."


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_refuses_in_two_lines(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--nonsense" in refused(f"{verb} --nonsense", capsys)[0]


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        ("traim", "one of demo, select, train, evaluate, report, paper, theory; got 'traim'", "`batchcut train`?"),
        ("--json theory", "one of demo, select, train, evaluate, report, paper, theory; got '--json'", "--help"),
        ("paper", "`batchcut paper` must be followed by one of list, run; got nothing", "`batchcut paper --help`"),
        ("paper rum", "`batchcut paper` must be followed by one of list, run; got 'rum'", "`batchcut paper run`?"),
    ],
)
def test_no_verb(words: str, what: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = refused(words, capsys)
    assert what in first
    assert hint in second


@pytest.mark.parametrize("words", ["--tyro-print-completion", "--tyro-print-completion pwsh"])
def test_a_shell_that_is_not_known(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "must be followed by one of bash, zsh, tcsh, fish; got " in refused(words, capsys)[0]


def test_words_may_stand_anywhere_among_options() -> None:
    assert parsed(["train", "a=1", "--show", "b=2", "--data", "pairs:x=y", "c=3"]) == Train(
        settings=("a=1", "b=2", "c=3"), show=True, data="pairs:x=y"
    )
    assert parsed(["report", "a", "--out", "x", "b"]) == Report(runs=(Path("a"), Path("b")), out=Path("x"))
    assert parsed(["select", "a", "--batch_size=8", "b", "--margin", "-1", "-o", "p"]) == Select(
        u=Path("a"), v=Path("b"), batch_size=8, margin=-1.0, out=Path("p")
    )
    assert parsed(["paper", "run", "fig:a", "--quick", "fig:b"]) == Paper(Run(names=("fig:a", "fig:b"), quick=True))
    assert parsed(["evaluate", "--step", "None", "r"]) == Evaluate(run_folder=Path("r"))


@pytest.mark.parametrize(
    ("kind", "message", "shown"),
    [
        (Select, "batch_size must be at least 2; got 1", "--batch-size must be at least 2; got 1"),
        (Select, "v must be whole", "V must be whole"),
        (Run, "seed must be at least 0", "--seed must be at least 0"),
        (Train, "batch_size must be at least 2", "batch_size must be at least 2"),
        (Train, "settings must have the form KEY=VALUE", "settings must have the form KEY=VALUE"),
        (Select, "batch_size is a word", "batch_size is a word"),
    ],
)
def test_messages_call_arguments_what_the_command_line_does(kind: Any, message: str, shown: str) -> None:
    assert as_options(kind, message) == shown


@pytest.mark.parametrize("name", ["-o", "--out"])
@pytest.mark.parametrize(
    "words", ["demo", "select u --batch-size 8", "train", "evaluate run", "report run", "paper run all"]
)
def test_what_is_written_has_one_option_in_all_verbs(words: str, name: str) -> None:
    verb: Any = parsed([*words.split(), name, "there"])
    verb = getattr(verb, "verb", verb)
    assert (verb.run_folder if isinstance(verb, Train) else verb.out) == Path("there")


@pytest.mark.parametrize("words", ["select u --batch-size 8 --output", "evaluate run --output", "train --run"])
def test_old_names_of_it_are_still_taken(words: str) -> None:
    place, old = words.rsplit(" ", 1)
    assert parsed([*place.split(), old, "there"]) == parsed([*place.split(), "--out", "there"])


@pytest.mark.parametrize("words", ["select --step x --help", "select -h --batch-size", "paper run fig:a --help"])
def test_help_is_given_whatever_else_is_wrong(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(words.split())
    printed = capsys.readouterr().out
    assert "Examples:" in printed
    assert "--quiet" in printed
