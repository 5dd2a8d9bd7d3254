"""The command line: parse, call, print."""

import importlib.metadata
import json
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import batchcut

if TYPE_CHECKING:
    from batchcut.theory import Check

DONE, CHECK_FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True, kw_only=True)
class Theory:
    """Try every claim of the paper and print by what margin it holds.

    A claim that is known to be wrong as printed carries the number of its erratum (docs/errata.md) and is expected to
    fail. The exit code is 1 if any claim comes out other than expected.

    `batchcut theory` prints the table of all claims, which takes about a minute; `batchcut theory thm:Toy-example`
    the detail of one; `batchcut theory --json` is for scripts.
    """

    label: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[LABEL]")] = None
    """LaTeX label of one claim, to see it in detail; all claims if left out."""

    json: bool = False
    """Print the outcomes as JSON."""

    quiet: bool = False
    """Print nothing and only set the exit code."""

    def run(self) -> int:
        """Tries the claims and prints what came out."""
        from batchcut.theory import checks, run_checks

        total = len(checks(self.label))
        outcomes = []
        with _progress(hidden=self.quiet or self.json) as progress:
            task = progress.add_task("trying the claims", total=total)
            for outcome in run_checks(self.label):
                outcomes.append(outcome)
                progress.update(task, advance=1, description=outcome.label)
        if self.json:
            print(json.dumps([_as_json(outcome) for outcome in outcomes], indent=2, ensure_ascii=False))
        elif not self.quiet:
            _print_outcomes(outcomes, in_detail=self.label is not None)
        return DONE if all(outcome.as_expected for outcome in outcomes) else CHECK_FAILED


VERBS: dict[str, Callable[..., Theory]] = {"theory": Theory}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `batchcut` with the given arguments, those of the process if left out, and exits."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if words == ["--version"]:
        print(_versions())
        sys.exit(DONE)
    verb = tyro.extras.subcommand_cli_from_dict(
        VERBS,
        prog="batchcut",
        description="Picks the mini-batches that teach a contrastive model most. "
        "`--version` prints the versions that matter; `--debug` shows the traceback of an error.",
        args=words or ["--help"],
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    try:
        sys.exit(verb.run())
    except KeyboardInterrupt:
        print("\nbatchcut: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except (OSError, TypeError, ValueError) as error:
        if debug:
            raise
        print(f"batchcut: {error}", file=sys.stderr)
        sys.exit(WRONG_USE)


def _versions() -> str:
    others = " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy", "scipy", "numba"))
    return f"batchcut {batchcut.__version__} (Python {platform.python_version()}, {others})"


def _progress(*, hidden: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden)


def _as_json(outcome: "Check") -> dict[str, object]:
    return asdict(outcome) | {
        "margin": outcome.margin,
        "holds": outcome.holds,
        "as_expected": outcome.as_expected,
        "detail": dict(outcome.detail),
    }


def _print_outcomes(outcomes: "Sequence[Check]", *, in_detail: bool) -> None:
    console = Console()
    # Where the output is no terminal there is no width to fit into.
    if not console.is_terminal:
        console = Console(width=200)
    table = Table(title="The paper's claims, tried", title_justify="left")
    table.add_column("claim", ratio=1)
    for name in ("measured", "claimed", "margin"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    for label in dict.fromkeys(outcome.label for outcome in outcomes):
        table.add_section()
        table.add_row(Text(label, style="bold"))
        for outcome in (outcome for outcome in outcomes if outcome.label == label):
            _add_outcome(table, outcome, in_detail=in_detail)
    console.print(table)
    held = sum(outcome.holds for outcome in outcomes)
    known = sum(outcome.erratum is not None for outcome in outcomes)
    unexpected = sum(not outcome.as_expected for outcome in outcomes)
    console.print(
        f"{len(outcomes)} tried: {held} hold, {known} fail as known mistakes of the paper (number in docs/errata.md), "
        f"{unexpected} came out other than expected."
    )


def _add_outcome(table: Table, outcome: "Check", *, in_detail: bool) -> None:
    word = "holds" if outcome.holds else "fails"
    if outcome.erratum is not None:
        word += f" (erratum {outcome.erratum})"
    table.add_row(
        outcome.claim,
        f"{outcome.measured:.4g}",
        f"{outcome.relation} {outcome.bound:.4g}",
        f"{outcome.margin:.2g}",
        Text(word, style="" if outcome.as_expected else "bold red"),
    )
    if in_detail:
        for setting, result in outcome.detail:
            table.add_row(Text(f"  {setting}: {result}" if result else f"  {setting}", style="dim"))


if __name__ == "__main__":
    main()
