"""`batchcut report`: run folders to one page of HTML."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from cyclopts import Parameter

from ._output import as_json
from ._verb import DONE, Out


@dataclass(frozen=True)
class Report:
    """Make one page of HTML from the folders of runs: it opens from disk and needs no network.

    The page compares the methods, shows the time spent planning, the losses of batches, the similarities before and
    after, the batches themselves, and all settings. Runs that differ in their seed alone are put together.
    """

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut report runs", "all runs in a folder"),
        ("batchcut report runs/a runs/b --out a-b.html", "two of them"),
        ("batchcut report runs --texts train.txt", "with a line of text for each training sample"),
    )

    runs: Annotated[tuple[Path, ...], Parameter(name="RUN", show_default=False)] = ()
    """Folders of runs, or folders that hold such; at least one."""

    _: KW_ONLY

    out: Out = Path("report.html")
    """The page to write."""

    title: str = "batchcut report"
    """The heading of the page."""

    texts: Path | None = None
    """A file with a line of text for each training sample, for runs on features."""

    json: bool = False
    """Print the path and the size as JSON."""

    quiet: bool = False
    """Print nothing."""

    def run(self) -> int:
        """Writes the page and prints where it is."""
        from batchcut.report import write_report

        if not self.runs:
            raise ValueError("RUN must name at least one run; `batchcut train` or `batchcut demo` makes one")
        path = write_report(self.runs, self.out, title=self.title, texts=self.texts)
        if self.json and not self.quiet:
            print(as_json({"report": str(path), "bytes": path.stat().st_size}))
        elif not self.quiet:
            print(path)
        return DONE
