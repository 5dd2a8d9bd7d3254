"""Wrong words are refused in two lines that say what to do; right ones may stand in any order."""

from pathlib import Path
from typing import Any

import pytest

from batchcut import cli
from batchcut.cli._app import VERBS, as_options, parsed
from batchcut.cli._evaluate import Evaluate
from batchcut.cli._paper import Run
from batchcut.cli._report import Report
from batchcut.cli._reshard import Reshard
from batchcut.cli._select import Select
from batchcut.cli._train import Train

ALL = "Available commands: demo, select, reshard, train, evaluate, report, paper, theory."


def refused(words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that are said where words are refused."""
    with pytest.raises(SystemExit) as stop:
        cli.main(words.split())
    assert stop.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert 1 <= len(lines) <= 2
    assert all(len(line) <= 150 for line in lines)
    return lines


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("select --step x", "Unknown option: --step. Did you mean --seed?"),
        ("evaluate RUN --stpe 3", "Unknown option: --stpe. Did you mean --step?"),
        ("demo --sed 3", "Unknown option: --sed. Did you mean --seeds?"),
        ("train -x", "Unknown option: -x."),
        ("evaluate RUN --step x", "Invalid value for --step: must be an integer; got 'x'"),
        ("evaluate RUN --test=1.5", "Invalid value for --test: must be an integer; got '1.5'"),
        (
            "select u.npy --batch-size 8 --temperature warm",
            'Invalid value for --temperature: unable to convert "warm" into float.',
        ),
        (
            "select u.npy --batch-size 8 --margin x",
            'Invalid value for --margin: unable to convert "x" into float|Literal[none]|None.',
        ),
        (
            "select u.npy --batch-size 8 --method best",
            'Invalid value "best" for --method. Choose from: "cut", "spectral", "ordered", "shuffle".',
        ),
        (
            "evaluate RUN --corrupted x",
            'Invalid value "x" for --corrupted. Choose from: "made", "cifar100-c", "tiny-imagenet-c".',
        ),
        ("evaluate", 'Command "evaluate" parameter RUN requires an argument.'),
        ("select", 'Command "select" parameter U requires an argument.'),
        ("select u.npy", 'Command "select" parameter --batch-size requires an argument.'),
        ("reshard", 'Command "reshard" parameter PLAN requires an argument.'),
        ("reshard p s", 'Command "reshard" parameter --out requires an argument.'),
        ("demo --seeds", 'Command "demo" parameter --seeds requires an argument.'),
        ("report RUN --out --json", 'Command "report" parameter --out requires an argument.'),
        ("demo --json=maybe", 'Invalid value for --json: unable to convert "maybe" into bool.'),
        ("demo now", "now: more words than this verb takes"),
        ("evaluate a b", "b: more words than this verb takes"),
        ("paper run --fast", "Unknown option: --fast. Did you mean --cifar?"),
        ("paper list x", "x: more words than this verb takes"),
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
        ("traim", f'Unknown command "traim". Did you mean "train"? {ALL}', "`batchcut --help`"),
        ("--json theory", ALL, "`batchcut --help`"),
        ("paper", "`batchcut paper` must be followed by one of list, run; got nothing", "`batchcut paper --help`"),
        (
            "paper rum",
            'Unknown command "rum". Did you mean "run"? Available commands: list, run.',
            "`batchcut paper --help`",
        ),
    ],
)
def test_no_verb(words: str, what: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = refused(words, capsys)
    assert what in first
    assert hint in second


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("--completion", "parameter SHELL requires an argument."),
        ("--completion pwsh", 'Invalid value "pwsh" for SHELL. Choose from: "bash", "zsh", "fish".'),
    ],
)
def test_a_shell_that_is_not_known(words: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert what in refused(words, capsys)[0]


def test_words_may_stand_anywhere_among_options() -> None:
    assert parsed(["train", "a=1", "--show", "b=2", "--data", "pairs:x=y", "c=3"]) == Train(
        settings=("a=1", "b=2", "c=3"), show=True, data="pairs:x=y"
    )
    assert parsed(["report", "a", "--out", "x", "b"]) == Report(runs=(Path("a"), Path("b")), out=Path("x"))
    assert parsed(["select", "a", "--batch_size=8", "b", "--margin", "-1", "-o", "p"]) == Select(
        u=Path("a"), v=Path("b"), batch_size=8, margin=-1.0, out=Path("p")
    )
    assert parsed(["reshard", "p", "a", "-o", "x", "b"]) == Reshard(
        plan=Path("p"), shards=(Path("a"), Path("b")), out=Path("x")
    )
    assert parsed(["paper", "run", "fig:a", "--quick", "fig:b"]) == Run(names=("fig:a", "fig:b"), quick=True)
    assert parsed(["evaluate", "--step", "None", "r"]) == Evaluate(run_folder=Path("r"))


def test_the_last_of_an_option_counts() -> None:
    assert parsed(["train", "--data", "a", "x=1", "--show", "--data=b", "--show", "x=2"]) == Train(
        settings=("x=1", "x=2"), show=True, data="b"
    )


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
    "words",
    ["demo", "select u --batch-size 8", "reshard p s", "train", "evaluate run", "report run", "paper run all"],
)
def test_what_is_written_has_one_option_in_all_verbs(words: str, name: str) -> None:
    verb: Any = parsed([*words.split(), name, "there"])
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
