"""`reshard`: the files of a set rewritten so that every run of B samples is a batch of a plan."""

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from batchcut._errors import check_choice, check_integer, check_progress, invalid, wrong_type
from batchcut._files import check_outside_runs, existing_file, read_json, sync_folder, write_json
from batchcut._progress import Progress, part_of, silent
from batchcut._random import Stream, generator
from batchcut.selection import BatchPlan

from ._memory import DEFAULT_MEMORY
from ._pair_files import FilePaths, Ints, states_of
from ._parts import forget_asked, open_folder
from ._plan_table import check_counts, check_table_files, read_plan_table
from ._sample_files import open_sample_files
from ._samples import SampleFiles, Target

_FORMAT = "batchcut shards 1"
_INDEX, _CHECKED = "index", "checked.json"
_USUAL_SAMPLES = 10_000  # of a shard, as other tools make them
_INDEXED = 0.1  # share of the work by which the index is made, for the progress reported
_BATCHES_AT_ONCE = 1 << 12

Order = Literal["random", "plan"]
Mode = Literal["whole", "split"]


@dataclass(frozen=True)
class Resharded:
    """What `reshard` wrote.

    Attributes:
        folder: Where.
        shards: The names of the files in it, in their order.
        batches: How many batches each of them holds.
        samples: How many samples all of them hold.
        batch_size: How many samples of a batch a process reads: B, or B / ranks where batches are split.
        ranks: For how many processes.
        left_out: The batches of the plan that are in no shard, since every process has as many.
    """

    folder: Path
    shards: tuple[str, ...]
    batches: tuple[int, ...]
    samples: int
    batch_size: int
    ranks: int
    left_out: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Layout:
    """Which batches are in which shard.

    Attributes:
        rows: Of each shard, the numbers of its batches.
        columns: Of each shard, which positions of them.
        left_out: Batches in no shard.
    """

    rows: list[Ints]
    columns: list[slice]
    left_out: Ints


def reshard(
    plan: BatchPlan | str | os.PathLike[str],
    shards: FilePaths,
    out: str | os.PathLike[str],
    *,
    ranks: int = 1,
    mode: Mode = "whole",
    order: Order = "random",
    batches_per_shard: int | None = None,
    memory: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Resharded:
    """Rewrites WebDataset tars, or parquet files, so that every run of B samples is a batch of a plan.

    Shards hold whole batches and are named `shard-000000.tar` and so on; process r of W reads those with number r,
    r + W, r + 2W, as WebDataset's `split_by_node` does, and each has as many batches. `shards.json` lists them. In a
    tar each sample gets a folder, BATCH/POSITION, before its key; in a parquet file each batch is a row group.

    The folder gets its name when all is done; until then it is called `out` + ".unfinished", and the same call goes on
    with what is there. Tars are read sample by sample, by an index in that folder, and one sample is in memory. Of
    parquet files, as many batches as fit into half of `memory` are made at a time, and all files are read once for
    them.

    Args:
        plan: The plan, or the path of one: `.npz`, which is mapped, or `.parquet`, by `write_plan_table`. If that names
            the files, `shards` must be the same, as far as `write_plan_table` says.
        shards: The files of the samples: sample i is sample i of all of them together.
        out: The folder to make; it is new, or empty.
        ranks: W, how many processes will read. Batches beyond a multiple are left out.
        mode: "whole": each process has other batches; "split": each has its B / W samples of every batch, for losses
            that gather negatives from all of them.
        order: "random", a function of the plan's seed and epoch, as loaders have it; "plan" keeps that of the plan, in
            which neighbours can be alike.
        batches_per_shard: At most so many; as make 10,000 samples if left out.
        memory: Bytes for rows of parquet files; more if one batch, or one row group that is read, needs more.
        progress: Called with the share of the work done, from 0 to 1.
    """
    if not isinstance(out, (str, os.PathLike)):
        raise wrong_type("out", "be a path", out)
    check_progress(progress)
    found, table = _read_plan(plan)
    ranks = check_integer("ranks", ranks, at_least=1)
    layout = _laid_out(found, ranks=ranks, mode=mode, order=order, batches_per_shard=batches_per_shard)
    folder, told = Path(out), progress or silent
    _check_new(folder)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    files = open_sample_files(shards, index=unfinished / _INDEX, memory=check_integer("memory", memory, at_least=1))
    files.check_movable()
    asked = {"plan": _digest(found), "files": files.state(), "ranks": ranks, "mode": mode, "order": order}
    asked["batches_per_shard"] = len(layout.rows[0])
    made = _made(found, folder, files, layout, ranks)
    with open_folder("out", unfinished, asked):
        _check_once(found, table, files, unfinished)
        told(_INDEXED)
        targets = map(Target, (unfinished / name for name in made.shards), layout.rows, layout.columns)
        left = [target for target in targets if not target.path.exists()]
        if left:
            files.write(left, found, part_of(told, _INDEXED, 1.0))
        write_json(unfinished / "shards.json", _in_json(made))
        _forget_check(unfinished)
        unfinished.replace(folder)
    forget_asked(folder)
    sync_folder(folder.absolute().parent)
    told(1.0)
    return made


def _read_plan(plan: object) -> tuple[BatchPlan, Path | None]:
    """The plan, and its table if it has one."""
    if isinstance(plan, BatchPlan):
        return plan, None
    if not isinstance(plan, (str, os.PathLike)):
        raise wrong_type("plan", "be a BatchPlan or the path of one", plan)
    path = existing_file(Path(plan))
    if path.suffix == ".parquet":
        return read_plan_table(path, mapped=True), path
    return BatchPlan.load(path, mapped=True), None


def _check_new(folder: Path) -> None:
    check_outside_runs("out", folder)
    if not folder.name:
        raise invalid("out", "be a folder with a name", repr(str(folder)))
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise invalid("out", "be a new folder, or an empty one", folder)
    if folder.is_mount():  # no other folder can take its name, as the finished one would
        raise invalid("out", "be a folder within a file system, not where one is mounted", folder)


def _check_once(plan: BatchPlan, table: Path | None, files: SampleFiles, unfinished: Path) -> None:
    """Refuses files that are not those of the plan, in each call until they have passed.

    Nothing is left of what was begun, but for shards that a plan without a table has made of the same files.
    """
    mark, passed = unfinished / _CHECKED, states_of([] if table is None else [table])
    if mark.exists() and read_json(mark, list) == passed:
        return
    try:
        counts = files.counts()
        if table is not None:
            check_table_files(table, files, counts)
        check_counts("plan" if table is None else str(table), plan, files, counts)
    except (OSError, ValueError):
        if not any(unfinished.glob("shard-*")):
            _forget_check(unfinished)
            forget_asked(unfinished)
            with contextlib.suppress(OSError):  # it holds something that is not ours
                unfinished.rmdir()
        raise
    write_json(mark, passed)


def _forget_check(unfinished: Path) -> None:
    for name in (_CHECKED, _INDEX):  # in this order: where there is a mark, there is an index
        (unfinished / name).unlink(missing_ok=True)


def _laid_out(plan: BatchPlan, *, ranks: int, mode: object, order: object, batches_per_shard: object) -> _Layout:
    """Equal shares of whole batches: of each round of shards, one for each process, all have equally many."""
    check_choice("mode", mode, ("whole", "split"))
    check_choice("order", order, ("random", "plan"))
    usual = max(1, _USUAL_SAMPLES // plan.batch_size)
    most = usual if batches_per_shard is None else check_integer("batches_per_shard", batches_per_shard, at_least=1)
    full = len(plan) - int(plan.batches[-1, -1] < 0)
    if ranks > 1 and full < len(plan):
        raise invalid("plan", "have full batches alone for several ranks, as with drop_last=True", "a short one")
    if mode == "split" and plan.batch_size % ranks:
        raise invalid("ranks", f"divide the batch size {plan.batch_size} where batches are split", ranks)
    numbers = np.arange(len(plan))
    if order == "random":
        numbers[:full] = generator(Stream.BATCH_ORDER, plan.seed, plan.epoch).permutation(full)
    abreast = 1 if mode == "split" else ranks
    each = len(plan) // abreast
    if not each:
        raise invalid("ranks", f"be at most the number of batches, {len(plan)}", ranks)
    used, left_out = numbers[: each * abreast], numbers[each * abreast :]
    width = plan.batch_size // ranks
    rows, columns = list[Ints](), list[slice]()
    for start in range(0, each, most):
        size = min(most, each - start)
        for rank in range(ranks):
            first = start * abreast + (0 if mode == "split" else rank * size)
            rows.append(used[first : first + size])
            columns.append(slice(rank * width, (rank + 1) * width) if mode == "split" else slice(0, plan.batch_size))
    return _Layout(rows, columns, np.sort(left_out))


def _digest(plan: BatchPlan) -> str:
    """What the batches of a plan are known by."""
    found = hashlib.blake2b(repr((plan.batches.shape, plan.count, plan.seed, plan.epoch)).encode(), digest_size=16)
    for start in range(0, len(plan), _BATCHES_AT_ONCE):
        found.update(np.ascontiguousarray(plan.batches[start : start + _BATCHES_AT_ONCE]).tobytes())
    return found.hexdigest()


def _made(plan: BatchPlan, folder: Path, files: SampleFiles, layout: _Layout, ranks: int) -> Resharded:
    width = layout.columns[0].stop - layout.columns[0].start
    missing = int((np.asarray(plan.batches[-1]) < 0).sum())
    batches = tuple(len(rows) for rows in layout.rows)
    samples = sum(batches) * width - missing
    left_out = tuple(layout.left_out.tolist())
    names = tuple(f"shard-{number:06}{files.suffix}" for number in range(len(batches)))
    return Resharded(folder, names, batches, samples, width, ranks, left_out)


def _in_json(made: Resharded) -> dict[str, object]:
    shards = [{"name": name, "batches": count} for name, count in zip(made.shards, made.batches, strict=True)]
    return {
        "format": _FORMAT,
        "batch_size": made.batch_size,
        "samples": made.samples,
        "ranks": made.ranks,
        "left_out": list(made.left_out),
        "shards": shards,
    }
