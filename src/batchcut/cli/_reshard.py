"""`batchcut reshard`: shards of samples rewritten in the order of a plan."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from cyclopts import Parameter

from batchcut._errors import check_integer

from ._output import as_json
from ._verb import DONE, Integer, OptionalInteger, Out

if TYPE_CHECKING:
    from batchcut.scale import Resharded


@dataclass(frozen=True)
class Reshard:
    """Rewrite WebDataset tars or parquet files so that every run of B samples is a planned batch.

    Sample i of the plan is sample i of all shards together, in the order in which they are given. The new shards hold
    whole batches, equally many for each process. The folder has its name when all is done; until then `.unfinished` is
    added to it, and the same command goes on after an interruption.
    """

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut reshard plan.npz data/*.tar -o planned", "for one process"),
        ("batchcut reshard plan.parquet data/*.tar -o planned --ranks 8", "for eight, each with other batches"),
        (
            "batchcut reshard plan.npz data/*.tar -o planned --ranks 8 --mode split",
            "each of eight has its part of every batch, for losses that gather",
        ),
        ("batchcut reshard plan.npz rows/*.parquet -o planned --memory 8192", "rows, with 8 GiB for them"),
    )

    plan: Annotated[Path, Parameter(name="PLAN")]
    """The plan, .npz or .parquet, as `batchcut select` writes it."""

    shards: Annotated[tuple[Path, ...], Parameter(name="SHARD", show_default=False)] = ()
    """The files of the samples, .tar or .parquet, in their order; at least one."""

    _: KW_ONLY

    out: Out
    """The folder to make."""

    ranks: Integer = 1
    """For how many processes; batches beyond a multiple are left out."""

    mode: Literal["whole", "split"] = "whole"
    """Whether a process has whole batches, other ones than the others, or its part of every batch."""

    order: Literal["random", "plan"] = "random"
    """Batches in random order, by the plan's seed and epoch, or in that of the plan, where neighbours can be alike."""

    batches_per_shard: OptionalInteger = None
    """At most so many; as make 10,000 samples if left out."""

    memory: Integer = 1024
    """MiB for rows of parquet files: the more, the less often these are read."""

    json: bool = False
    """Print the outcome as JSON."""

    quiet: bool = False
    """Print nothing but errors."""

    def run(self) -> int:
        """Writes the shards and prints what they are."""
        from batchcut.scale import reshard

        from ._progress import share_progress

        if not self.shards:
            raise ValueError("SHARD must name at least one file")
        memory = check_integer("--memory", self.memory, at_least=1)
        with share_progress(hidden=self.quiet) as progress:
            task = progress.add_task(f"writing {self.out}", total=1.0)
            made = reshard(
                self.plan,
                self.shards,
                self.out,
                ranks=self.ranks,
                mode=self.mode,
                order=self.order,
                batches_per_shard=self.batches_per_shard,
                memory=memory << 20,
                progress=lambda done: progress.update(task, completed=done),
            )
        if not self.quiet:
            self._print(made)
        return DONE

    def after_interrupt(self) -> str:
        """How to go on."""
        unfinished = self.out.with_name(f"{self.out.name}.unfinished")
        return f"the same command goes on with what is in {unfinished}" if unfinished.is_dir() else ""

    def _print(self, made: "Resharded") -> None:
        if self.json:
            print(
                as_json(
                    {
                        "output": str(made.folder),
                        "shards": list(made.shards),
                        "batches": list(made.batches),
                        "batch_size": made.batch_size,
                        "samples": made.samples,
                        "ranks": made.ranks,
                        "left_out": list(made.left_out),
                    }
                )
            )
            return
        count, suffix = len(made.shards), Path(made.shards[0]).suffix
        names = f"shard-{{000000..{count - 1:06}}}{suffix}" if count > 1 else made.shards[0]
        print(f"{made.folder}/{names}")
        print(f"{sum(made.batches):,} batches of {made.batch_size} in {count:,} shards, {made.samples:,} samples")
        if made.left_out:
            print(f"{len(made.left_out)} batches left out, so that each of {made.ranks} processes has as many")
