"""`BatchPlan`: which samples share a batch, what was asked for, and what came out."""

import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from batchcut._errors import check_at_least_zero, check_flag, check_integer, check_positive, invalid, wrong_type
from batchcut._files import reading, write_whole

from ._archive import map_member, read_member
from ._effective import EffectiveSize, effective_batch_size
from ._inputs import Doubles, Ints, as_array
from ._plan_checks import (
    Setting,
    check_batches,
    check_left_over,
    check_outcome,
    check_shape,
    frozen,
    frozen_settings,
)

_FORMAT = "batchcut plan 1"
_ARRAYS = ("batches", "losses", "weights", "left_over")
_NOT_COMPARED = ("seconds", "effective")


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchPlan:
    """K batches of B sample indices: a frozen record that cannot be invalid.

    Iterated, it gives the indices of each batch: `DataLoader(dataset, batch_sampler=BatchPlan.load("plan.npz"))`.

    Two plans are equal if they were asked for alike and came out alike; the seconds, and whether the effective size is
    measured, are not compared.

    Attributes:
        batches: (K, B) indices; where the last batch is short, its row ends in -1.
        count: N, the number of samples that were there to choose from.
        method: The selector's name.
        settings: The selector's settings.
        seed: With `epoch`, what all randomness is a function of.
        epoch: The epoch that the plan is for.
        temperature: τ, at which losses and weights are given.
        drop_last: Whether N mod B samples were left out; if not, they are in one short batch.
        repeats: Whether a sample may be in several batches; never where the selector `covers` the samples in use.
        losses: (K,) contrastive loss of each batch, CLIP's as in `losses.contrastive_loss`.
        weights: (K,) sum of w(k, l) over the pairs of each batch.
        left_over: Samples that are in no batch, ascending.
        group_pairs: Pairs of the same group that share a batch, because they could not be parted.
        margin_pairs: Pairs that share a batch although the margin takes their weight away.
        seconds: How long the planning took.
        effective: The effective batch size, where it is measured: by `measured`, which loaders, `batchcut select` and
            `batchcut train` call, and selectors do not, since it can take as long as planning. It is that of the
            batches alone: a background, which the loss may add, makes it larger.
    """

    batches: Ints
    count: int
    method: str
    settings: Mapping[str, Setting]
    seed: int
    epoch: int
    temperature: float
    drop_last: bool
    repeats: bool
    losses: Doubles
    weights: Doubles
    left_over: Ints
    group_pairs: int
    margin_pairs: int
    seconds: float
    effective: EffectiveSize | None = None

    def __post_init__(self) -> None:
        for name in ("batches", "left_over"):
            object.__setattr__(self, name, frozen(name, getattr(self, name), np.int64))
        for name in ("losses", "weights"):
            object.__setattr__(self, name, frozen(name, getattr(self, name), np.float64))
        for name in ("count", "seed", "epoch"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), at_least=0))
        object.__setattr__(self, "settings", frozen_settings(self.settings))
        object.__setattr__(self, "temperature", check_positive("temperature", self.temperature))
        object.__setattr__(self, "seconds", check_at_least_zero("seconds", self.seconds))
        if not isinstance(self.method, str):
            raise wrong_type("method", "be a string", self.method)
        if not (self.effective is None or isinstance(self.effective, EffectiveSize)):
            raise wrong_type("effective", "be None or an EffectiveSize", self.effective)
        check_flag("drop_last", self.drop_last)
        check_flag("repeats", self.repeats)
        check_shape(self.batches, self.left_over, self.count)
        used = check_batches("batches", self.batches, self.count, repeats=self.repeats)
        check_left_over(used, self.left_over)
        for name in ("losses", "weights"):
            check_outcome(name, getattr(self, name), len(self))
        pairs = len(self) * math.comb(self.batch_size, 2)
        for name in ("group_pairs", "margin_pairs"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), at_least=0, at_most=pairs))

    def __len__(self) -> int:
        return int(self.batches.shape[0])

    def __iter__(self) -> Iterator[Ints]:
        """Yields the indices of each batch, without the padding of a short one."""
        for row in self.batches:
            yield row[: int((row >= 0).sum())]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchPlan):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if _compared(f.name))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copy: the plan is made, and checked, anew."""
        facts = {f.name: getattr(self, f.name) for f in fields(self)} | {"settings": dict(self.settings)}
        return partial(type(self), **facts), ()

    @property
    def batch_size(self) -> int:
        """B, the width of `batches`."""
        return int(self.batches.shape[1])

    @property
    def mean_loss(self) -> float:
        """The mean of the batch losses: half of `prob:mini-batch` for this choice of batches."""
        return float(self.losses.mean())

    @property
    def total_weight(self) -> float:
        """The within-batch weight of the whole plan, which `Cut` maximises."""
        return float(self.weights.sum())

    @property
    def coverage(self) -> float:
        """The share of the samples that are in some batch."""
        return 1 - len(self.left_over) / self.count

    def measured(self, u: object, v: object, *, anchors: int | None = None, threads: int | None = None) -> Self:
        """The same plan with its effective batch size by the embeddings u: (N, d), v: (N, d).

        They are those that it was made from, or later ones, to see what it is worth by then. For `anchors` and
        `threads` see `effective_batch_size`.
        """
        if (shape := as_array("u", u).shape)[:1] != (self.count,):
            raise invalid("u", f"hold the {self.count} samples of the plan", f"shape {shape}")
        size = effective_batch_size(
            u,
            v,
            self,
            temperature=self.temperature,
            anchors=anchors,
            seed=self.seed,
            epoch=self.epoch,
            threads=threads,
        )
        return replace(self, effective=size)

    def within(self, samples: Ints, count: int, *, drop_last: bool) -> Self:
        """The same plan by the numbers that its samples have in a larger set of `count`: sample i is `samples[i]`.

        It is not checked again: different numbers for different samples leave a valid plan valid.
        """
        batches = np.where(self.batches >= 0, samples[self.batches], -1)
        absent = np.ones(count, bool)
        absent[batches[batches >= 0]] = False
        facts = {f.name: getattr(self, f.name) for f in fields(self)}
        facts |= {"batches": batches, "left_over": np.flatnonzero(absent), "count": count, "drop_last": drop_last}
        plan = object.__new__(type(self))
        for name, value in facts.items():
            object.__setattr__(plan, name, value)
        for name in _ARRAYS:
            getattr(plan, name).flags.writeable = False
        return plan

    def summary(self) -> str:
        """What was asked for and what came out, in a few lines of text."""
        low, middle, high = np.quantile(self.losses, (0.0, 0.5, 1.0))
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        sizes = "equal sizes" if self.batches[-1, -1] >= 0 else f"the last with {(self.batches[-1] >= 0).sum()}"
        asked = f"{self.count:,} samples, batch size {self.batch_size}, seed {self.seed}, epoch {self.epoch}"
        left = f"{len(self.left_over):,} left over"
        worth = "not measured: plan.measured(u, v) does" if self.effective is None else str(self.effective)
        if self.effective is not None and math.isfinite(self.effective.size):
            worth += f": random batches that large keep as much of the full-batch gradient, {self.effective.kept:.1%}"
        lines = [
            f"{self.method}({settings})",
            f"  asked     {asked}",
            f"  batches   {len(self):,} ({sizes}), {self.coverage:.1%} of the samples, {left}",
            f"  loss      mean {self.mean_loss:.4f}, min {low:.4f}, median {middle:.4f}, max {high:.4f}",
            f"  weight    {self.total_weight:.6g} within batches, at temperature {self.temperature:g}",
            f"  pairs     {self.group_pairs:,} of one group together, {self.margin_pairs:,} within the margin",
            f"  effective {worth}",
            f"  time      {self.seconds:.3g} s",
        ]
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as an `.npz` file without pickles; the file is either complete or not there."""
        write_whole(Path(path), self._write)

    def packed(self) -> bytes:
        """What `save` would write."""
        file = BytesIO()
        self._write(file)
        return file.getvalue()

    def _write(self, file: BinaryIO) -> None:
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        np.savez(file, format=np.array(_FORMAT), facts=np.array(json.dumps(plan_facts(self))), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mapped: bool = False) -> Self:
        """Reads a plan that `save` wrote; any other file is refused with a `ValueError`.

        With `mapped` its arrays stay in the file, for a plan that is larger than memory: it is checked some batches at
        a time, with one byte for each of the N samples, and the file must stay as it is as long as the plan is in use.
        """
        source = Path(path)
        check_flag("mapped", mapped)
        with reading(source, "be a plan saved by BatchPlan.save"), zipfile.ZipFile(source) as archive:
            return cls._read(archive, map_member if mapped else read_member)

    @classmethod
    def unpacked(cls, content: bytes) -> Self:
        """The plan that `packed` gave; anything else is refused with a `ValueError`."""
        with reading("a packed plan", "be one by BatchPlan.packed"), zipfile.ZipFile(BytesIO(content)) as archive:
            return cls._read(archive, read_member)

    @classmethod
    def _read(cls, archive: zipfile.ZipFile, member: Callable[[zipfile.ZipFile, str], npt.NDArray[Any]]) -> Self:
        if str(read_member(archive, "format")) != _FORMAT:
            raise ValueError(f"format {str(read_member(archive, 'format'))!r} is not {_FORMAT!r}")
        facts = json.loads(str(read_member(archive, "facts")))
        arrays: dict[str, Any] = {name: member(archive, name) for name in _ARRAYS}
        return cls(**arrays, **read_facts(facts))


def plan_facts(plan: BatchPlan) -> dict[str, Any]:
    """All of a plan but its arrays, as JSON has it."""
    facts = {f.name: getattr(plan, f.name) for f in fields(plan) if f.name not in _ARRAYS}
    effective = None if plan.effective is None else asdict(plan.effective)
    return facts | {"settings": dict(plan.settings), "effective": effective}


def read_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """What `plan_facts` gave, as arguments of a `BatchPlan`."""
    size = facts.get("effective")
    return facts if size is None else facts | {"effective": EffectiveSize(**size)}


def typical_batches(losses: Doubles, each: int) -> Ints:
    """Numbers of batches, ascending: by losses (K,), so many of the easiest, of the hardest, and around the median."""
    order = np.argsort(losses, kind="stable")
    middle = max(0, (len(order) - each) // 2)
    return np.unique(np.concatenate([order[:each], order[middle : middle + each], order[-each:]]))


def _compared(name: str) -> bool:
    return name not in _NOT_COMPARED


def _same(mine: Any, theirs: Any) -> bool:
    return np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else bool(mine == theirs)
