"""`BatchPlan`: which samples share a batch, what was asked for, and what came out."""

import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from batchcut._errors import as_float, check_flag, check_integer, check_positive, invalid, wrong_dtype, wrong_type
from batchcut._files import reading, write_whole

from ._effective import EffectiveSize, effective_batch_size
from ._inputs import Doubles, Ints

_FORMAT = "batchcut plan 1"
_ARRAYS = ("batches", "losses", "weights", "left_over")
_NOT_COMPARED = ("seconds", "effective")

Setting = bool | int | float | str | None


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
            object.__setattr__(self, name, _frozen(name, getattr(self, name), np.int64))
        for name in ("losses", "weights"):
            object.__setattr__(self, name, _frozen(name, getattr(self, name), np.float64))
        for name in ("count", "seed", "epoch"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), at_least=0))
        object.__setattr__(self, "settings", _frozen_settings(self.settings))
        object.__setattr__(self, "temperature", check_positive("temperature", self.temperature))
        object.__setattr__(self, "seconds", _check_seconds(self.seconds))
        if not isinstance(self.method, str):
            raise wrong_type("method", "be a string", self.method)
        if not (self.effective is None or isinstance(self.effective, EffectiveSize)):
            raise wrong_type("effective", "be None or an EffectiveSize", self.effective)
        check_flag("drop_last", self.drop_last)
        check_flag("repeats", self.repeats)
        _check_shape(self.batches, self.left_over, self.count)
        check_batches("batches", self.batches, self.count, repeats=self.repeats)
        _check_left_over(self.batches, self.left_over, self.count)
        for name in ("losses", "weights"):
            _check_outcome(name, getattr(self, name), len(self))
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
            worth += f" of the same worth at random, {self.effective.kept:.1%} of the full-batch gradient"
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
        target = Path(path)
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _ARRAYS}
        facts["settings"] = dict(self.settings)
        facts["effective"] = None if self.effective is None else asdict(self.effective)
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        content = {"format": np.array(_FORMAT), "facts": np.array(json.dumps(facts))} | arrays
        write_whole(target, lambda file: np.savez(file, **content))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a plan that `save` wrote; any other file is refused with a `ValueError`."""
        source = Path(path)
        with reading(source, "be a plan saved by BatchPlan.save"), zipfile.ZipFile(source) as archive:
            if str(_member(archive, "format")) != _FORMAT:
                raise ValueError(f"format {str(_member(archive, 'format'))!r} is not {_FORMAT!r}")
            facts = json.loads(str(_member(archive, "facts")))
            if facts.get("effective") is not None:
                facts["effective"] = EffectiveSize(**facts["effective"])
            arrays: dict[str, Any] = {name: _member(archive, name) for name in _ARRAYS}
            return cls(**arrays, **facts)


def typical_batches(losses: Doubles, each: int) -> Ints:
    """Numbers of batches, ascending: by losses (K,), so many of the easiest, of the hardest, and around the median."""
    order = np.argsort(losses, kind="stable")
    middle = max(0, (len(order) - each) // 2)
    return np.unique(np.concatenate([order[:each], order[middle : middle + each], order[-each:]]))


def _member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """An array of an `.npz` file, whose checksum is proven as it is read to the end."""
    with archive.open(f"{name}.npy") as file:
        array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):
            raise ValueError(f"{name} is followed by more")
        return array


def _compared(name: str) -> bool:
    return name not in _NOT_COMPARED


def _same(mine: Any, theirs: Any) -> bool:
    return np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else bool(mine == theirs)


def _frozen(name: str, values: npt.NDArray[Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if not np.can_cast(array.dtype, dtype, "safe"):
        raise wrong_dtype(name, f"hold {np.dtype(dtype).name}", array.dtype.name)
    array = array.astype(dtype)  # a copy, so that nobody else holds it writable
    array.flags.writeable = False
    return array


def _frozen_settings(settings: object) -> Mapping[str, Setting]:
    """The settings, with all kinds of numbers made plain ones: what is saved comes back the same."""
    if not isinstance(settings, Mapping):
        raise wrong_type("settings", "be a mapping", settings)
    plain = {name: _plain(value) for name, value in settings.items()}
    for name, value in plain.items():
        if not isinstance(name, str):
            raise wrong_type("settings", "be named by strings", name)
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise wrong_type(f"settings[{name!r}]", "be a number, a string or None", value)
    return MappingProxyType(plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return float(value) if isinstance(value, Real) and not isinstance(value, int) else value


def _check_seconds(seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, Real):
        raise wrong_type("seconds", "be a number", seconds)
    number = as_float(seconds)
    if not (math.isfinite(number) and number >= 0):
        raise invalid("seconds", "be finite and at least 0", seconds)
    return number


def _check_shape(batches: Ints, left_over: Ints, count: int) -> None:
    """Refuses batches of no size, and more samples than are listed, before anything of that length is made."""
    if batches.ndim != 2 or batches.shape[0] < 1 or batches.shape[1] < 2:
        raise invalid("batches", "have shape (K, B) with K ≥ 1 and B ≥ 2", batches.shape)
    if count > batches.size + left_over.size:
        raise invalid("left_over", "list the samples that are in no batch, ascending", f"{left_over.size} samples")


def _check_outcome(name: str, values: Doubles, count: int) -> None:
    if values.shape != (count,):
        raise invalid(name, f"hold one number for each of the {count} batches", values.shape)
    if not np.isfinite(values).all():
        worst = int(np.isfinite(values).argmin())
        raise invalid(name, "hold finite numbers", f"{values[worst]} in batch {worst}")
    if values.min() < 0:
        raise invalid(name, "hold no negative numbers", f"{values.min()} in batch {int(values.argmin())}")


def check_batches(argument: str, batches: Ints, count: int, *, repeats: bool) -> None:
    """Refuses batches (K, B) with other indices than those of `count` samples, or with a sample twice."""
    used = batches >= 0
    if batches.min() < -1 or batches.max() >= count:
        bad = batches.min() if batches.min() < -1 else batches.max()
        raise invalid(argument, f"hold indices below {count}", bad)
    if not used[:-1].all() or not used[-1, 0] or (np.diff(used[-1].astype(np.int8)) > 0).any():
        raise invalid(argument, "be full, but for -1 at the end of the last row", "-1 elsewhere")
    ordered = np.sort(batches, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if twice.any():
        raise invalid(argument, "hold no sample twice in one batch", f"sample {ordered[:, 1:][twice][0]}")
    if not repeats:
        times = np.bincount(batches[used], minlength=count)
        if times.max() > 1:
            raise invalid(argument, "hold each sample once where repeats=False", f"sample {int(times.argmax())}")


def _check_left_over(batches: Ints, left_over: Ints, count: int) -> None:
    absent = np.ones(count, bool)
    absent[batches[batches >= 0]] = False
    if not np.array_equal(np.flatnonzero(absent), left_over):
        raise invalid("left_over", "list the samples that are in no batch, ascending", f"{len(left_over)} samples")
