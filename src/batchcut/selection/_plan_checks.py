"""What a plan must be: arrays that nobody can change, plain settings, samples that are there."""

from collections.abc import Iterator, Mapping
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._errors import invalid, wrong_dtype, wrong_type

from ._inputs import Doubles, Ints

Setting = bool | int | float | str | None

_SAMPLES_AT_ONCE = 1 << 20  # of a plan that is checked, which may be mapped and larger than memory


def frozen(name: str, values: npt.NDArray[Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    if isinstance(values, np.memmap) and values.dtype == dtype and values.mode == "r":
        return values  # which nobody can write to, and which may be larger than memory
    array = np.asarray(values)
    if not np.can_cast(array.dtype, dtype, "safe"):
        raise wrong_dtype(name, f"hold {np.dtype(dtype).name}", array.dtype.name)
    array = array.astype(dtype)  # a copy, so that nobody else holds it writable
    array.flags.writeable = False
    return array


def frozen_settings(settings: object) -> Mapping[str, Setting]:
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


def check_shape(batches: Ints, left_over: Ints, count: int) -> None:
    """Refuses batches of no size, and more samples than are listed, before anything of that length is made."""
    if batches.ndim != 2 or batches.shape[0] < 1 or batches.shape[1] < 2:
        raise invalid("batches", "have shape (K, B) with K ≥ 1 and B ≥ 2", batches.shape)
    if count > batches.size + left_over.size:
        raise invalid("left_over", "list the samples that are in no batch, ascending", f"{left_over.size} samples")


def check_outcome(name: str, values: Doubles, count: int) -> None:
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


def check_left_over(used: npt.NDArray[np.bool_], left_over: Ints) -> None:
    ascending = left_over.ndim == 1 and bool((left_over[1:] > left_over[:-1]).all())
    within = ascending and (not left_over.size or (left_over[0] >= 0 and left_over[-1] < len(used)))
    if not within or used[left_over].any() or np.count_nonzero(used) + len(left_over) != len(used):
        raise invalid("left_over", "list the samples that are in no batch, ascending", f"{left_over.size} samples")
