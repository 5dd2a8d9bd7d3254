"""`batchcut select`: plans batches from embeddings in files, for any trainer."""

import sys
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from cyclopts import Parameter
from rich.table import Table

from batchcut._errors import check_integer, invalid
from batchcut._files import read_lines

from ._output import as_json, console
from ._verb import DONE, Integer, OptionalInteger, OptionalOutput, check_out

if TYPE_CHECKING:
    from batchcut.evaluation import Health
    from batchcut.scale import PairFiles
    from batchcut.selection import BatchPlan, Prospects, Selector

_TRAINING_SIDES = ("train_u", "train_v")
_SHUFFLED_BATCHES = 64  # of a set too large for memory, which say what shuffled ones are like
_SHUFFLED_BYTES = 32  # for each column of a sample of them: two sides in float64, and as much again to measure them


@dataclass(frozen=True)
class Select:
    """Choose batches of hard negatives from embeddings in files.

    Shows by how much the mean loss of the batches exceeds that of shuffled ones, and how large random batches would
    have to be to teach as much: the effective batch size. Says whether planned batches will pay, and what to do. Warns
    where the embeddings look collapsed, are not normalised, or hold duplicates. The plan is a file for
    `batchcut.BatchPlan.load`; its array `batches` (K, B) holds the numbers of the rows, and `numpy.load` reads it too.
    `batchcut reshard` rewrites the files of the samples in its order.
    """

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut select u.npy v.npy --batch-size 256 -o plan.npz", "with the default method"),
        (
            "batchcut select pairs.safetensors --batch-size 64 --method spectral --pool 40 -o plan.npz",
            "as the paper does",
        ),
        ("batchcut select pairs.npz --batch-size 64 --json", "what would come out, for scripts"),
        (
            "batchcut select u.npy v.npy --batch-size 256 --parts parts -o plan.npz",
            "a set larger than memory; the same again goes on after an interruption",
        ),
        (
            "batchcut select u.npy v.npy --batch-size 256 -o plan.parquet --shards data/*.tar",
            "as a table, with the file and the key of each sample",
        ),
    )

    u: Annotated[Path, Parameter(name="U")]
    """Embeddings of one side, .npy; or one .npz, .safetensors or .parquet file, or folder, with both: `u` and `v`,
    `train_u` and `train_v`, or just two arrays."""

    v: Annotated[Path | None, Parameter(name="V")] = None
    """Embeddings of the other side, .npy; row i of both belong together."""

    _: KW_ONLY

    batch_size: Integer
    """How many samples share a batch."""

    out: OptionalOutput = None
    """Where the plan is written, as a table if it ends in .parquet; nowhere if left out."""

    shards: Annotated[tuple[Path, ...], Parameter(consume_multiple=True, show_default=False)] = ()
    """With a table: the .tar or .parquet files of the samples, whose names and keys stand in it."""

    method: Literal["cut", "spectral", "ordered", "shuffle"] = "cut"
    """How batches are chosen."""

    temperature: float = 0.1
    """Temperature of the loss."""

    pool: OptionalInteger = None
    """cut, spectral: how many random batches are chosen anew at a time; the whole set if left out."""

    margin: float | Literal["none"] | None = None
    """cut, spectral, shuffle: pairs that come within it of being each other's positives count no weight. 0.05 for cut
    and none for the others if left out."""

    rounds: OptionalInteger = None
    """cut: how often the search comes back to each batch; one or four times, as seems to pay, if left out."""

    threads: OptionalInteger = None
    """cut: how many threads work; one for each processor if left out."""

    k: OptionalInteger = None
    """ordered: how many batches are looked at for a step."""

    q: OptionalInteger = None
    """ordered: how many of them are kept; 1 if left out."""

    seed: Integer = 0
    """With the epoch, what all randomness is a function of."""

    epoch: Integer = 0
    """Which epoch the plan is for."""

    groups: Path | None = None
    """One integer or word per sample, .npy or, without --parts, one a line: two of one group share a batch only if they
    must."""

    drop_last: Annotated[bool, Parameter(negative="--no-drop-last")] = True
    """Where the batch size does not divide the samples, leave some out, others each epoch; or make a short
    batch."""

    parts: Path | None = None
    """A folder for the parts of the plan, new, or of the same plan that was interrupted: for sets that are larger than
    memory. They are planned in cells of similar samples, and what is done is kept there."""

    memory: OptionalInteger = None
    """With --parts: MiB that planning may take, beside the program itself; 1024, room for four threads, if left out."""

    json: bool = False
    """Print the outcome as JSON."""

    quiet: bool = False
    """Print nothing but errors."""

    def run(self) -> int:
        """Plans, writes the plan and prints what came out."""
        from batchcut.evaluation import health
        from batchcut.selection import Shuffle, prospects

        from ._progress import share_progress

        check_out(self.out, self.u, self.v, self.groups, *self.shards)
        if self.shards and (self.out is None or self.out.suffix != ".parquet"):
            raise invalid("--shards", "be given with -o FILE.parquet", self.shards[0])
        check_integer("--batch-size", self.batch_size, at_least=2)
        selector = self._selector()
        if self.parts is not None:
            return self._run_in_cells(self.parts, selector)
        if self.memory is not None:
            raise invalid("--memory", "be given with --parts", self.memory)
        with share_progress(hidden=self.quiet) as progress:
            reading = progress.add_task("reading", total=None)
            u, v, settings = self._read()
            progress.remove_task(reading)
            task = progress.add_task(f"planning {len(u):,} pairs", total=1.0)
            plan = selector(u, v, **settings, progress=lambda done: progress.update(task, completed=done))
            self._save(plan)  # before anything that only advises
            progress.add_task("measuring the plan", total=None)
            plan = plan.measured(u, v, threads=self.threads)
            self._save(plan)
            shuffled = Shuffle(temperature=self.temperature)(u, v, **settings)
            state = health(u, v)
            expected = None if selector.is_shuffle else prospects(u, v, plan, groups=settings["groups"])
        if not self.quiet:
            self._print(plan, shuffled, state, expected)
        return DONE

    def _read(self) -> tuple[Any, Any, dict[str, Any]]:
        """The embeddings, and what every selector is told."""
        u, v = read_sides(self.u, self.v)
        if u.shape != v.shape:
            raise invalid("V", f"have the shape of U, {u.shape}", v.shape)
        self._check_shards(len(u))
        return (
            u,
            v,
            {
                "batch_size": self.batch_size,
                "seed": self.seed,
                "epoch": self.epoch,
                "groups": None if self.groups is None else read_groups(self.groups, len(u)),
                "drop_last": self.drop_last,
            },
        )

    def after_interrupt(self) -> str:
        """How to go on; with nothing where no parts are kept."""
        if self.parts is None or not self.parts.is_dir():
            return ""
        return f"the same command goes on with the parts in {self.parts}"

    def _run_in_cells(self, parts: Path, selector: "Selector") -> int:
        """Plans within the memory given, and compares with a sample of shuffled batches."""
        from batchcut.scale import open_pair_files, plan_in_cells

        from ._progress import share_progress

        memory = 1024 if self.memory is None else check_integer("--memory", self.memory, at_least=1)
        if self.groups is not None and self.groups.suffix != ".npy":
            raise invalid("--groups", "be a .npy file with --parts", self.groups)
        if not selector.covers:
            raise invalid("--method", "be one that takes each sample once with --parts", self.method)
        if self.out is not None and self.out.resolve().is_relative_to(parts.resolve()):
            raise invalid("--out", "lie outside the folder of --parts", self.out)
        pairs = open_pair_files(self.u, self.v, groups=self.groups)
        check_integer("--batch-size", self.batch_size, at_least=2, at_most=len(pairs))
        self._check_memory(memory, pairs, selector)
        self._check_shards(len(pairs))
        with share_progress(hidden=self.quiet) as progress:
            task = progress.add_task(f"planning {len(pairs):,} pairs", total=1.0)
            plan = plan_in_cells(
                pairs,
                parts=parts,
                batch_size=self.batch_size,
                selector=selector,
                seed=self.seed,
                epoch=self.epoch,
                drop_last=self.drop_last,
                memory=memory << 20,
                progress=lambda done: progress.update(task, completed=done),
            )
            self._save(plan)
        if not self.quiet:
            self._compare(plan, pairs, memory << 20)
        return DONE

    def _check_memory(self, memory: int, pairs: "PairFiles", selector: "Selector") -> None:
        """As `plan_in_cells` does, but in MiB."""
        from batchcut.scale import memory_for

        least = -(-memory_for(pairs, self.batch_size, selector) >> 20)
        if memory < least:
            rule = f"be at least {least} MiB for batches of {self.batch_size}, {pairs.dim} wide"
            raise invalid("--memory", rule, memory)

    def _compare(self, plan: "BatchPlan", pairs: "PairFiles", memory: int) -> None:
        """Prints the plan beside shuffled batches of samples that are drawn, as many as fit into memory."""
        from batchcut.evaluation import health
        from batchcut.selection import Shuffle

        count = min(_SHUFFLED_BATCHES * self.batch_size, memory // (_SHUFFLED_BYTES * pairs.dim))
        some = pairs.some(count, seed=self.seed)
        shuffled = Shuffle(temperature=self.temperature)(*some, batch_size=self.batch_size, seed=self.seed)
        self._print(plan, shuffled, health(*some), None)

    def _selector(self) -> "Selector":
        from batchcut import selection

        kind: Any = getattr(selection, self.method.capitalize())
        asked = {name: getattr(self, name) for name in ("pool", "margin", "rounds", "threads", "k", "q")}
        asked = {name: value for name, value in asked.items() if value is not None}
        known = {field.name for field in fields(kind)}
        for name, value in asked.items():
            if name not in known:
                raise invalid(f"--{name}", f"be left alone with --method {self.method}", value)
        if self.method == "ordered" and self.k is None:
            raise ValueError("--k must be given with --method ordered")
        if self.margin == "none":
            asked["margin"] = None
        selector: Selector = kind(temperature=self.temperature, **asked)
        return selector

    def _check_shards(self, count: int) -> None:
        """Refuses, before the work, shards of other samples than those that are planned."""
        from batchcut.scale import count_samples

        if self.shards and (found := count_samples(self.shards)) != count:
            raise invalid("--shards", f"hold the {count} samples of which there are embeddings", found)

    def _save(self, plan: "BatchPlan") -> None:
        from batchcut.scale import write_plan_table

        if self.out is not None and self.out.suffix == ".parquet":
            write_plan_table(plan, self.out, shards=self.shards or None)
        elif self.out is not None:
            plan.save(self.out)

    def _print(self, plan: "BatchPlan", shuffled: "BatchPlan", state: "Health", expected: "Prospects | None") -> None:
        if self.json:
            print(as_json(self._outcome(plan, shuffled, state, expected)))
            return
        table = Table(title=f"{plan.method}: {len(plan):,} batches of {plan.batch_size}", title_justify="left")
        for name in ("", "chosen", "shuffled"):
            table.add_column(name, justify="right" if name else "left", no_wrap=True)
        table.add_row("mean loss", f"{plan.mean_loss:.4f}", f"{shuffled.mean_loss:.4f}")
        table.add_row("largest loss", f"{plan.losses.max():.4f}", f"{shuffled.losses.max():.4f}")
        worth = "not measured" if plan.effective is None else str(plan.effective)
        table.add_row("effective batch size", worth, f"{shuffled.batch_size}")
        of_some = self.parts is not None  # which say nothing of the samples beside them, nor of groups
        table.add_row("samples in a batch", f"{plan.coverage:.1%}", "–" if of_some else f"{shuffled.coverage:.1%}")
        table.add_row("of one group together", f"{plan.group_pairs:,}", "–" if of_some else f"{shuffled.group_pairs:,}")
        within = "no margin" if plan.settings.get("margin") is None else f"{plan.margin_pairs:,}"
        table.add_row("too similar, together", within, "–")
        table.add_row("seconds", f"{plan.seconds:.2f}", "–" if of_some else f"{shuffled.seconds:.2f}")
        output = console()
        output.print(table)
        harder = f"The mean loss is {_gain(plan, shuffled):.1f} times that of shuffled batches."
        for sentence in (*((harder,) if expected is None else expected.sentences), self._written()):
            output.print(sentence, soft_wrap=True, highlight=False, markup=False)
        for warning in state.warnings:
            print(f"batchcut: warning: {warning}", file=sys.stderr)

    def _written(self) -> str:
        """Where the plan is, and what one does with it."""
        if self.out is None and self.parts is not None:
            return f"The plan is kept in {self.parts}: the same command with -o writes it."
        if self.out is None:
            return "The plan is not written: name a file with -o."
        if self.out.suffix == ".parquet":
            return f"The plan is written to {self.out}."
        loader = f"DataLoader(dataset, batch_sampler=batchcut.BatchPlan.load({str(self.out)!r}))"
        return f"The plan is written to {self.out}; {loader} gives its batches."

    def _outcome(
        self, plan: "BatchPlan", shuffled: "BatchPlan", state: "Health", expected: "Prospects | None"
    ) -> dict[str, object]:
        return {
            "method": plan.method,
            "settings": dict(plan.settings),
            "samples": plan.count,
            "batches": len(plan),
            "batch_size": plan.batch_size,
            "coverage": plan.coverage,
            "mean_loss": plan.mean_loss,
            "shuffled_mean_loss": shuffled.mean_loss,
            "gain": _gain(plan, shuffled),
            "effective_size": None if plan.effective is None else plan.effective.facts,
            "pays": None if expected is None else expected.pays,
            "hard_negatives": None if expected is None else expected.hard_negatives,
            "twins": None if expected is None else expected.twins,
            "advice": [] if expected is None else list(expected.sentences),
            "group_pairs": plan.group_pairs,
            "margin_pairs": plan.margin_pairs,
            "seconds": plan.seconds,
            "norms": [state.shortest, state.longest],
            "alike": state.alike,
            "directions": state.directions,
            "copies": state.copies,
            "warnings": list(state.warnings),
            "output": None if self.out is None else str(self.out),
        }


def read_sides(first: Path, second: Path | None) -> tuple[Any, Any]:
    """The arrays u and v in one file or two, memory-mapped where the format allows it."""
    from batchcut.data import names_of_sides, open_arrays

    if second is not None:
        for side in (first, second):
            if side.suffix != ".npy":
                raise invalid("U and V", "both be .npy files, or one file with both arrays", side)
        arrays = open_arrays(f"{first},{second}")
        return arrays["u"], arrays["v"]
    if first.suffix == ".npy":
        raise ValueError("V must be given where U is a .npy file")
    arrays = open_arrays(str(first))
    sides = names_of_sides(arrays) or _TRAINING_SIDES
    if all(side in arrays for side in sides):
        return arrays[sides[0]], arrays[sides[1]]
    raise invalid(str(first), "hold u and v, train_u and train_v, or just two arrays", ", ".join(arrays) or "none")


def read_groups(path: Path, count: int) -> Any:
    """One integer or word for each of `count` samples: the array in a .npy file, or the lines of a text file."""
    from batchcut.data import open_npy

    if path.suffix == ".npy":
        return open_npy(path)
    return read_lines(path, "be a .npy file or a text with one group a line, for --groups", most=count)


def _gain(plan: "BatchPlan", shuffled: "BatchPlan") -> float:
    return plan.mean_loss / shuffled.mean_loss if shuffled.mean_loss > 0 else 1.0
