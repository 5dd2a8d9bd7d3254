"""`batchcut report`: run folders, or a plan with its embeddings, to one page of HTML."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from cyclopts import Parameter

from batchcut._errors import invalid
from batchcut._files import check_target

from ._output import as_json
from ._select import read_groups, read_sides
from ._verb import DONE, Out


@dataclass(frozen=True)
class Report:
    """Make one page of HTML from the folders of runs, or from a plan: it opens from disk and needs no network.

    The page compares the methods, shows the time spent planning, the losses of batches, the similarities before and
    after, the batches themselves, and all settings. Runs that differ in their seed alone are put together. That of a
    plan, with --embeddings, compares its batches with shuffled ones and shows them, whatever trains on them.
    """

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut report runs", "all runs in a folder"),
        ("batchcut report runs/a runs/b --out a-b.html", "two of them"),
        ("batchcut report runs --texts train.txt", "with a line of text for each training sample"),
        ("batchcut report plan.npz --embeddings u.npy v.npy", "a plan of `batchcut select` or `BatchPlan.save`"),
    )

    runs: Annotated[tuple[Path, ...], Parameter(name="RUN", show_default=False)] = ()
    """Folders of runs, or folders that hold such, at least one; or the file of one plan, .npz or .parquet, with
    --embeddings."""

    _: KW_ONLY

    out: Out = Path("report.html")
    """The page to write."""

    title: str = "batchcut report"
    """The heading of the page."""

    texts: Path | None = None
    """A file with a line of text for each training sample, for plans and runs on features."""

    embeddings: Annotated[tuple[Path, ...], Parameter(consume_multiple=True, show_default=False)] = ()
    """For a plan: two .npy files, or one file with both sides, as `batchcut select` takes them."""

    groups: Path | None = None
    """For a plan that was made with groups: the same file, as `batchcut select` takes it."""

    json: bool = False
    """Print the path and the size as JSON."""

    quiet: bool = False
    """Print nothing."""

    def run(self) -> int:
        """Writes the page and prints where it is."""
        if not self.runs:
            raise ValueError("RUN must name at least one run; `batchcut train` or `batchcut demo` makes one")
        of_plan = any(place.is_file() or (self.embeddings and not place.exists()) for place in self.runs)
        path = self._of_plan(self.runs) if of_plan else self._of_runs()
        if self.json and not self.quiet:
            print(as_json({"report": str(path), "bytes": path.stat().st_size}))
        elif not self.quiet:
            print(path)
        return DONE

    def _of_runs(self) -> Path:
        from batchcut.report import write_report

        if self.embeddings:
            names = " ".join(map(str, self.embeddings))
            raise invalid("--embeddings", "be given with the file of a plan; folders of runs hold their own", names)
        if self.groups is not None:
            raise invalid("--groups", "be given with the file of a plan", self.groups)
        return write_report(self.runs, self.out, title=self.title, texts=self.texts)

    def _of_plan(self, places: tuple[Path, ...]) -> Path:
        from batchcut import BatchPlan
        from batchcut.report import read_texts, write_plan_report
        from batchcut.scale import read_plan_table

        if len(places) > 1:
            raise invalid("RUN", "be one plan, or folders of runs", " ".join(map(str, places)))
        check_target("--out", self.out, inputs=[*places, *self.embeddings, self.texts, self.groups])
        plan = read_plan_table(places[0]) if places[0].suffix == ".parquet" else BatchPlan.load(places[0])
        if len(self.embeddings) not in (1, 2):
            rule = f"name two .npy files, or one file with both sides, for the plan in {places[0]}"
            raise invalid("--embeddings", rule, f"{len(self.embeddings)} names")
        u, v = read_sides(self.embeddings[0], self.embeddings[1] if len(self.embeddings) == 2 else None)
        texts = None if self.texts is None else read_texts(self.texts)
        groups = None if self.groups is None else read_groups(self.groups, plan.count)
        return write_plan_report(plan, u, v, self.out, title=self.title, texts=texts, groups=groups)
