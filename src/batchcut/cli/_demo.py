"""`batchcut demo`: what planned batches do, on data that is always at hand."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.table import Table

from ._output import as_json, console
from ._verb import DONE, Integer, OptionalOut

if TYPE_CHECKING:
    from batchcut.demo import Outcome


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train the same small encoder with shuffled, ordered, spectral and cut batches, and compare.

    On scikit-learn's hand-written digits, with equal steps and three seeds; a few minutes on two cores. Prints a
    table and, last, the path of a report to open in a browser. What was stopped goes on when it is started again.

    The task is small and was chosen by looking at how shuffled and cut batches fare on about seven variants of it: the
    demo shows how things work and proves nothing about how much is gained; differences are within the spread of the
    seeds. benchmarks/training.py is for the rest.
    """

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut demo", "all of it"),
        ("batchcut demo --quick", "how it works, in seconds; not what is gained"),
        ("batchcut demo --seeds 5 --out my-demo", "a closer look"),
        ("batchcut demo --json", "for scripts"),
    )

    out: OptionalOut = None
    """The folder for the runs and the report; batchcut-demo if left out, batchcut-demo-quick with --quick. Finished
    runs in it are not trained again."""

    seeds: Integer = 3
    """How many times each method is trained, from different first weights."""

    quick: bool = False
    """Only a few steps, to see how it works."""

    json: bool = False
    """Print the table as JSON."""

    quiet: bool = False
    """Print nothing."""

    def after_interrupt(self) -> str:
        """How to go on."""
        return "the same command goes on where it was stopped"

    def run(self) -> int:
        """Trains, compares and prints what came out."""
        from batchcut.demo import run_demo

        from ._progress import DemoWatcher

        out = self.out or Path("batchcut-demo-quick" if self.quick else "batchcut-demo")
        with DemoWatcher(hidden=self.quiet) as watcher:
            outcome = run_demo(out, seeds=self.seeds, quick=self.quick, observe=watcher)
        if self.json and not self.quiet:
            rows = [row.as_dict() for row in outcome.rows]
            print(as_json({"methods": rows, "report": str(outcome.report)}))
        elif not self.quiet:
            _print_table(outcome)
            print(outcome.report)
        return DONE


def _print_table(outcome: "Outcome") -> None:
    table = Table(title="The same encoder and steps, four ways to choose batches", title_justify="left")
    table.add_column("batches")
    for name in ("top-1, %", "steps to the shuffled result", "planning, s", "mean batch loss"):
        table.add_column(name, justify="right")
    best = max(row.top1 for row in outcome.rows)
    for row in outcome.rows:
        reached = "never" if row.steps_to_shuffled is None else f"{row.steps_to_shuffled:,} of {row.steps:,}"
        spread = f" ± {row.spread * 100:.1f}" if math.isfinite(row.spread) else ""
        style = "bold" if row.top1 == best else ""
        cells = (f"{row.top1 * 100:.1f}{spread}", reached, f"{row.planning:.2f}", f"{row.mean_loss:.3f}")
        table.add_row(row.method, *cells, style=style)
    output = console()
    output.print(table)
    output.print(
        "top-1: how often a held-out digit finds its other view among all; mean ± standard deviation over seeds.\n"
        "planning: seconds a run. The report, to open in a browser:",
        highlight=False,
    )
