"""`BatchPlan`: which samples share a batch, what was asked for, and what came out."""

import json
import math
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from io import BytesIO
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from batchcut._errors import as_float, check_flag, check_integer, check_positive, invalid, wrong_dtype, wrong_type
from batchcut._files import reading, write_whole

from ._effective import EffectiveSize, effective_batch_size
from ._inputs import Doubles, Ints

_FORMAT = "batchcut plan 1"
_ARRAYS = ("batches", "losses", "weights", "left_over")
_NOT_COMPARED = ("seconds", "effective")
_SAMPLES_AT_ONCE = 1 << 20  # of a plan that is checked, which may be mapped and larger than memory
_BYTES_AT_ONCE = 1 << 20

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
        used = check_batches("batches", self.batches, self.count, repeats=self.repeats)
        _check_left_over(used, self.left_over)
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
            return cls._read(archive, _mapped_member if mapped else _member)

    @classmethod
    def unpacked(cls, content: bytes) -> Self:
        """The plan that `packed` gave; anything else is refused with a `ValueError`."""
        with reading("a packed plan", "be one by BatchPlan.packed"), zipfile.ZipFile(BytesIO(content)) as archive:
            return cls._read(archive, _member)

    @classmethod
    def _read(cls, archive: zipfile.ZipFile, member: Callable[[zipfile.ZipFile, str], npt.NDArray[Any]]) -> Self:
        if str(_member(archive, "format")) != _FORMAT:
            raise ValueError(f"format {str(_member(archive, 'format'))!r} is not {_FORMAT!r}")
        facts = json.loads(str(_member(archive, "facts")))
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


def _mapped_member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """An array of an `.npz` file, mapped into memory after its checksum was proven."""
    entry = archive.getinfo(f"{name}.npy")
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, and cannot be mapped")
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, kind = header(file)
        place = file.tell()
        while file.read(_BYTES_AT_ONCE):
            pass
    if kind.hasobject or entry.file_size != place + math.prod(shape) * kind.itemsize:
        raise ValueError(f"{name} has {entry.file_size} bytes, which are not those of its shape {shape}")
    with Path(str(archive.filename)).open("rb") as file_of_all:
        file_of_all.seek(entry.header_offset + 26)  # where the local header says how long its last two parts are
        place += entry.header_offset + 30 + sum(struct.unpack("<HH", file_of_all.read(4)))
        if not math.prod(shape):  # no bytes, and nothing to map
            return np.empty(shape, kind)
        return np.memmap(file_of_all, kind, "r", place, shape, "F" if by_columns else "C")


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
    if isinstance(values, np.memmap) and values.dtype == dtype and values.mode == "r":
        return values  # which nobody can write to, and which may be larger than memory
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


def check_batches(argument: str, batches: Ints, count: int, *, repeats: bool) -> npt.NDArray[np.bool_]:
    """Which of `count` samples are in batches (K, B); other indices than theirs, or a sample twice, are refused.

    Some batches are looked at after the other, so that they may be larger than memory.
    """
    low, high = int(batches.min()), int(batches.max())
    if low < -1 or high >= count:
        raise invalid(argument, f"hold indices below {count}", low if low < -1 else high)
    last = batches[-1] >= 0
    if not last[0] or (np.diff(last.astype(np.int8)) > 0).any() or (len(batches) > 1 and batches[:-1].min() < 0):
        raise invalid(argument, "be full, but for -1 at the end of the last row", "-1 elsewhere")
    used = np.zeros(count, bool)
    for block in _blocks(batches):
        ordered = np.sort(block, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        if twice.any():
            raise invalid(argument, "hold no sample twice in one batch", f"sample {ordered[:, 1:][twice][0]}")
        used[block[block >= 0]] = True
    if not repeats and np.count_nonzero(used) < batches.size - np.count_nonzero(~last):
        raise invalid(argument, "hold each sample once where repeats=False", f"sample {_met_again(batches, count)}")
    return used


def _blocks(batches: Ints) -> Iterator[Ints]:
    step = max(1, _SAMPLES_AT_ONCE // batches.shape[1])
    return (np.asarray(batches[start : start + step]) for start in range(0, len(batches), step))


def _met_again(batches: Ints, count: int) -> int:
    """The first sample that is in two batches."""
    met = np.zeros(count, bool)
    for batch in (row for block in _blocks(batches) for row in block):
        found = batch[batch >= 0]
        if met[found].any():
            return int(found[met[found]][0])
        met[found] = True
    raise ValueError("no sample is in two batches")


def _check_left_over(used: npt.NDArray[np.bool_], left_over: Ints) -> None:
    ascending = left_over.ndim == 1 and bool((left_over[1:] > left_over[:-1]).all())
    within = ascending and (not left_over.size or (left_over[0] >= 0 and left_over[-1] < len(used)))
    if not within or used[left_over].any() or np.count_nonzero(used) + len(left_over) != len(used):
        raise invalid("left_over", "list the samples that are in no batch, ascending", f"{left_over.size} samples")
