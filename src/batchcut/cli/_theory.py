"""`batchcut theory`: the paper's claims and our own, tried."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from ._output import as_json, console
from ._verb import CHECK_FAILED, DONE

if TYPE_CHECKING:
    from batchcut.paper.claims import Check


@dataclass(frozen=True)
class Theory:
    """Try every claim of the paper, and ours of the effective batch size, and print by what margin it holds.

    A claim that is known to be wrong as printed carries the number of its erratum (docs/errata.md) and is expected to
    fail. The exit code is 1 if any claim comes out other than expected; with --strict, if any does not hold.
    """

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut theory", "the table of all claims; takes about a minute"),
        ("batchcut theory thm:Toy-example", "the detail of one"),
        ("batchcut theory --json", "for scripts"),
    )

    label: Annotated[str | None, Parameter(name="LABEL")] = None
    """LaTeX label of one claim, to see it in detail; all claims if left out."""

    _: KW_ONLY

    json: bool = False
    """Print the outcomes as JSON."""

    quiet: bool = False
    """Print nothing and only set the exit code."""

    strict: bool = False
    """Exit with 1 for the known mistakes too: for any claim that does not hold."""

    def run(self) -> int:
        """Tries the claims and prints what came out."""
        from batchcut.paper.claims import checks, run_checks

        from ._progress import counting_progress

        total = len(checks(self.label))
        outcomes = []
        with counting_progress(hidden=self.quiet) as progress:
            task = progress.add_task("trying the claims", total=total)
            for outcome in run_checks(self.label):
                outcomes.append(outcome)
                progress.update(task, advance=1, description=outcome.label)
        if self.json and not self.quiet:
            print(as_json([_as_json(outcome) for outcome in outcomes]))
        elif not self.quiet:
            _print_outcomes(outcomes, in_detail=self.label is not None)
        right = all(outcome.holds if self.strict else outcome.as_expected for outcome in outcomes)
        return DONE if right else CHECK_FAILED


def _as_json(outcome: "Check") -> dict[str, object]:
    return asdict(outcome) | {
        "margin": outcome.margin,
        "holds": outcome.holds,
        "as_expected": outcome.as_expected,
        "detail": dict(outcome.detail),
    }


def _print_outcomes(outcomes: "Sequence[Check]", *, in_detail: bool) -> None:
    output = console()
    table = Table(title="The paper's claims and ours, tried", title_justify="left")
    table.add_column("claim", ratio=1)
    for name in ("measured", "claimed", "margin"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    for label in dict.fromkeys(outcome.label for outcome in outcomes):
        table.add_section()
        table.add_row(Text(label, style="bold"))
        for outcome in (outcome for outcome in outcomes if outcome.label == label):
            _add_outcome(table, outcome, in_detail=in_detail)
    output.print(table)
    held = sum(outcome.holds for outcome in outcomes)
    known = sum(outcome.erratum is not None for outcome in outcomes)
    unexpected = sum(not outcome.as_expected for outcome in outcomes)
    output.print(
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
