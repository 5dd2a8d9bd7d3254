"""`batchcut paper`: the figures and tables of the paper, computed anew."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from batchcut._errors import invalid

from ._output import as_json, console
from ._verb import DONE, Integer, Out

if TYPE_CHECKING:
    from batchcut.paper import Item, Outcome

COLORS = {"agrees": "green", "agrees in part": "yellow", "does not agree": "bold red"}


@dataclass(frozen=True, kw_only=True)
class List:
    """Name every item with its label and what it costs."""

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut paper list", "a table"),
        ("batchcut paper list --json", "for scripts"),
    )

    json: bool = False
    """Print the items as JSON."""

    quiet: bool = False
    """Print nothing."""

    def run(self) -> int:
        """Prints the items."""
        from batchcut.paper import ITEMS

        if self.quiet:
            return DONE
        if self.json:
            print(as_json([_item_as_json(item) for item in ITEMS]))
            return DONE
        table = Table(title="Figures and tables of the paper", title_justify="left")
        table.add_column("label", no_wrap=True)
        table.add_column("shows", ratio=1)
        for name in ("minutes", "with --quick"):
            table.add_column(name, justify="right", no_wrap=True)
        for item in ITEMS:
            table.add_row(item.label, item.title, *(f"{minutes:g}" for minutes in item.minutes))
        full, quick = (sum(item.minutes[place] for item in ITEMS) for place in (0, 1))
        table.add_section()
        table.add_row("all", "", f"{full:g}", f"{quick:g}")
        output = console()
        output.print(table)
        output.print("Minutes are estimates for two cores.")
        return DONE


@dataclass(frozen=True)
class Run:
    """Compute items and write data, pictures, verdicts and one page that shows all.

    Each item gets a folder in --out: result.json (the data), figure.svg, figure.png, verdict.txt. index.html shows all
    items that are finished. An item that is there with the same settings and version is not computed again, so that an
    interrupted run goes on where it stopped. The exit code is 0 whatever the verdicts are.
    """

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut paper run all --quick", "all items on a small scale, within five minutes"),
        ("batchcut paper run fig:toy_example", "one of them in full"),
        ("batchcut paper run all --cifar DATA/cifar-100-python", "with images for the items that train"),
    )

    names: Annotated[tuple[str, ...], Parameter(name="NAME", show_default=False)] = ()
    """Labels, as `batchcut paper list` names them, or "all"."""

    _: KW_ONLY

    quick: bool = False
    """Fewer seeds and steps: all items within five minutes on two cores."""

    out: Out = Path("paper-results")
    """Folder for the results; made if it is not there."""

    force: bool = False
    """Compute again what is there already."""

    seed: Integer = 0
    """What all randomness is a function of."""

    cifar: Path | None = None
    """Folder with the CIFAR-100 images (cifar-100-python), for the items that train; otherwise they use the digits."""

    json: bool = False
    """Print the verdicts as JSON."""

    quiet: bool = False
    """Print nothing."""

    def after_interrupt(self) -> str:
        """How to go on."""
        return "the same command goes on where it was stopped"

    def run(self) -> int:
        """Runs the items and prints the verdicts."""
        from batchcut.paper import Settings, choose, finished, run_items, write_page

        from ._progress import counting_progress

        items = choose(self.names)
        if self.cifar is not None and not (self.cifar / "train").is_file():
            raise invalid("--cifar", "be the folder cifar-100-python, which holds the file train", self.cifar)
        settings = Settings(scale="quick" if self.quick else "full", seed=self.seed, cifar=self.cifar)
        outcomes: list[Outcome] = []
        with counting_progress(hidden=self.quiet) as progress:
            task = progress.add_task("starting", total=len(items))

            def report(item: "Item", share: float) -> None:
                progress.update(task, completed=len(outcomes) + share, description=f"{item.label} {share:.0%}")

            for outcome in run_items(items, settings, out=self.out, force=self.force, report=report):
                outcomes.append(outcome)
                page = write_page(self.out, finished(self.out))
        if self.json and not self.quiet:
            print(as_json([_outcome_as_json(outcome) for outcome in outcomes]))
        elif not self.quiet:
            _print_outcomes(outcomes, page)
        return DONE


def _item_as_json(item: "Item") -> dict[str, object]:
    full, quick = item.minutes
    return {"label": item.label, "title": item.title, "minutes": full, "minutes_quick": quick}


def _outcome_as_json(outcome: "Outcome") -> dict[str, object]:
    return {
        "label": outcome.item.label,
        "verdict": outcome.verdict.word,
        "findings": [asdict(finding) for finding in outcome.verdict.findings],
        "settings": outcome.settings,
        "seconds": round(outcome.seconds, 2),
        "reused": outcome.reused,
    }


def _print_outcomes(outcomes: "Sequence[Outcome]", page: Path) -> None:
    output = console()
    for outcome in outcomes:
        word = outcome.verdict.word
        note = " (from before)" if outcome.reused else f" ({outcome.seconds:.0f} s)"
        output.print(Text.assemble((outcome.item.label, "bold"), ": ", (word, COLORS[word]), note))
        for finding in outcome.verdict.findings:
            mark = "  =" if finding.agrees else "  ≠"
            output.print(Text(f"{mark} paper: {finding.paper}"))
            output.print(Text(f"    here:  {finding.here}"))
            if finding.why and not finding.agrees:
                output.print(Text(f"    why:   {finding.why}"))
    output.print(Text(f"All results on one page: {page}"))
