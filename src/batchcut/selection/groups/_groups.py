"""Samples that must not be negatives of each other: those that have a group in common."""

import warnings
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._errors import invalid, wrong_dtype, wrong_type
from batchcut.selection._inputs import Flags, Ints, as_array
from batchcut.selection.compute import kernel

_SEVERAL = (list, tuple, set, frozenset, np.ndarray)


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of N samples, of which each may be of none, one or several; two with one in common are in conflict.

    So conflicts take as much memory as there are memberships, where a list of all pairs would be of quadratic length.

    Attributes:
        starts: (N + 1,) where the groups of each sample begin in `codes`.
        codes: (M,) sample i is of the groups codes[starts[i] : starts[i + 1]], ascending.
        number: How many groups there are.
    """

    starts: Ints
    codes: Ints
    number: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def single(self) -> Ints | None:
        """(N,) a number for each sample, equal where two are in conflict; None where a sample is of several groups."""
        sizes = np.diff(self.starts)
        if sizes.max() > 1:
            return None
        codes = self.number + np.arange(len(self))
        codes[sizes == 1] = self.codes
        return codes

    @property
    def checksum(self) -> int:
        """A number by which a state knows these groups again."""
        return zlib.crc32(self.codes.tobytes(), zlib.crc32(self.starts.tobytes()))

    @cached_property
    def members(self) -> tuple[Ints, Ints]:
        """Where the samples of each group begin, (number + 1,), and the samples, (M,)."""
        samples = np.repeat(np.arange(len(self)), np.diff(self.starts))
        sizes = np.bincount(self.codes, minlength=self.number)
        return np.concatenate([[0], np.cumsum(sizes)]), samples[np.argsort(self.codes, kind="stable")]

    def of(self, samples: Ints) -> "Groups":
        """The groups of some samples, which are numbered anew; the groups keep their numbers."""
        first, sizes = self.starts[samples], np.diff(self.starts)[samples]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(starts[-1]) + np.repeat(first - starts[:-1], sizes)
        return Groups(starts, self.codes[places], self.number)

    def in_conflict(self, samples: Ints, others: Ints) -> npt.NDArray[np.bool_]:
        """(n,) which of some samples have a group in common with one of some others."""
        mine = self.of(samples)
        shared = np.isin(mine.codes, self.of(others).codes)
        return np.bincount(np.repeat(np.arange(len(mine)), np.diff(mine.starts)), shared, len(mine)) > 0

    def apart(self, batches: Sequence[Ints], ranks: Ints) -> list[Ints]:
        """Batches without those of their samples that have a group in common with one that stays, of lower rank.

        Args:
            batches: samples that share a batch, for each batch.
            ranks: (N,) of all samples.
        """
        seen = np.zeros(self.number, np.bool_)
        return [
            batch[_those_apart(self.starts, self.codes, batch, np.argsort(ranks[batch]), seen)] for batch in batches
        ]

    def ranks(self, samples: Ints) -> Ints:
        """(n,) numbers that sort some samples by their groups, equal where all groups are."""
        found = self.of(samples)
        keys = [tuple(part) for part in np.split(found.codes, found.starts[1:-1])]
        rank = {key: place for place, key in enumerate(sorted(set(keys)))}
        return np.array([rank[key] for key in keys], np.int64)


def read_groups(groups: object, count: int) -> Groups | None:
    """The groups of N samples from what a user gives; None where no two samples have one in common.

    That is a label for each sample, an integer or a string; a list of labels for each, or a row of an array (N, g); or
    a sparse array (N, G) whose row i is not zero at the groups of sample i.
    """
    if groups is None or isinstance(groups, Groups):
        return groups
    if hasattr(groups, "tocoo"):
        return _of_sparse(groups, count)
    is_listed = isinstance(groups, (list, tuple)) or (isinstance(groups, np.ndarray) and groups.dtype.kind == "O")
    listed: Any = groups
    if is_listed and any(isinstance(labels, _SEVERAL) for labels in listed):
        return _of_lists(listed, count)
    labels = as_array("groups", groups)
    if labels.ndim not in (1, 2) or len(labels) != count:
        raise invalid("groups", f"hold one entry for each of the {count} samples", f"shape {labels.shape}")
    codes = _codes(labels.ravel(), groups)
    if labels.ndim == 2:
        return _of_memberships(np.repeat(np.arange(count), labels.shape[1]), codes, count)
    number = int(codes.max()) + 1
    return Groups(np.arange(count + 1), codes, number) if number < count else None


def _of_lists(lists: Any, count: int) -> Groups | None:
    if len(lists) != count:
        raise invalid("groups", f"hold one entry for each of the {count} samples", len(lists))
    for labels in lists:
        if not isinstance(labels, _SEVERAL):
            raise wrong_type("groups", "hold a list of labels for each sample, if for any", labels)
    flat = [label for labels in lists for label in labels]
    if not flat:
        return None
    samples = np.repeat(np.arange(count), [len(labels) for labels in lists])
    return _of_memberships(samples, _codes(as_array("groups", flat), flat), count)


def _of_sparse(table: Any, count: int) -> Groups | None:
    if table.ndim != 2 or table.shape[0] != count:
        raise invalid("groups", f"have a row for each of the {count} samples", f"shape {table.shape}")
    found = table.tocoo()
    held = found.data != 0
    return _of_memberships(found.row[held].astype(np.int64), found.col[held].astype(np.int64), count)


def _of_memberships(samples: Ints, codes: Ints, count: int) -> Groups | None:
    """Groups from (sample, group) pairs in any order; those of one member are left out."""
    if not len(codes):
        return None
    width = int(codes.max()) + 1
    samples, codes = np.divmod(np.unique(samples * width + codes), width)
    shared = np.bincount(codes) > 1
    if not shared.any():
        return None
    kept = shared[codes]
    starts = np.concatenate([[0], np.cumsum(np.bincount(samples[kept], minlength=count))])
    return Groups(starts, (np.cumsum(shared) - 1)[codes[kept]], int(shared.sum()))


def _codes(labels: npt.NDArray[Any], given: object) -> Ints:
    """(n,) integers in the order of the labels, equal where these are."""
    if labels.dtype.kind == "O":
        _check_labels(labels)
        ids = {label: code for code, label in enumerate(sorted(set(labels), key=_rank))}
        return np.fromiter((ids[label] for label in labels), np.int64, len(labels))
    if labels.dtype.kind not in "iuUST":
        raise wrong_dtype("groups", "hold integers or strings", labels.dtype.name)
    if labels.dtype.kind in "US" and isinstance(given, (list, tuple)):
        _check_labels(given)  # NumPy has made strings of all that stood beside one
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _rank(label: Any) -> tuple[bool, Any]:
    """What labels are sorted by, as NumPy would; bytes and text do not compare."""
    return isinstance(label, bytes), label


def _check_labels(labels: Iterable[object]) -> None:
    """Refuses labels that are neither integers nor strings, and 1 beside "1", which could mean either group."""
    numbers = words = 0
    for label in labels:
        if isinstance(label, (str, bytes)):
            words += 1
        elif isinstance(label, (int, np.integer)) and not isinstance(label, bool):
            numbers += 1
        else:
            raise wrong_type("groups", "hold integers or strings", label)
    if numbers and words:
        raise wrong_dtype("groups", "hold integers or strings, not both", f"{numbers} and {words} of them")


def warn_of_large_groups(groups: Groups | None, batches: int, *, drop_conflicts: bool = False) -> None:
    """Says that some groups have more members than there are batches, so that no plan keeps them apart."""
    sizes = np.zeros(1, np.int64) if groups is None else np.bincount(groups.codes)
    large = int((sizes > batches).sum())
    if large:
        least = f"at least {sizes.max() - batches} samples are left out of each epoch, others each time"
        then = least if drop_conflicts else "some of them share a batch, and plan.group_pairs counts the pairs"
        warnings.warn(
            f"{large} of the groups have more members than there are batches, {batches}, the largest {sizes.max()}: "
            f"{then}",
            RuntimeWarning,
            stacklevel=3,  # who called the selector, or made the sampler
        )


def count_group_pairs(batches: Ints, groups: Groups) -> int:
    """How many pairs that share a batch (K, B) have a group in common."""
    filled = batches >= 0
    sizes, found = filled.sum(axis=1), groups.of(batches[filled])
    rows = np.repeat(np.repeat(np.arange(len(batches)), sizes), np.diff(found.starts))
    keys, times = np.unique(rows * groups.number + found.codes, return_counts=True)
    if groups.single is not None:
        return int((times * (times - 1) // 2).sum())
    crowded = np.unique(keys[times > 1] // groups.number)
    return int(_count_pairs(batches[crowded], groups.starts, groups.codes))


@kernel
def in_common(starts: Ints, codes: Ints, i: int, j: int) -> int:
    """How many groups two samples have in common."""
    found, at, other = 0, starts[i], starts[j]
    while at < starts[i + 1] and other < starts[j + 1]:
        if codes[at] == codes[other]:
            found += 1
            at += 1
            other += 1
        elif codes[at] < codes[other]:
            at += 1
        else:
            other += 1
    return found


@kernel
def _those_apart(starts: Ints, codes: Ints, samples: Ints, order: Ints, seen: Flags) -> Flags:
    """(n,) whether each of some samples stays, who are looked at in an order and stay if they have no group yet `seen`.

    No group is `seen` before or after: clearing all for each batch would cost their number times that of batches.
    """
    stays = np.ones(len(samples), np.bool_)
    for place in order:
        own = codes[starts[samples[place]] : starts[samples[place] + 1]]
        for code in own:
            if seen[code]:
                stays[place] = False
        if stays[place]:
            for code in own:
                seen[code] = True
    for sample in samples:
        for code in codes[starts[sample] : starts[sample + 1]]:
            seen[code] = False
    return stays


@kernel
def _count_pairs(batches: Ints, starts: Ints, codes: Ints) -> int:
    total = 0
    for row in batches:
        for s in range(len(row)):
            for t in range(s):
                if row[s] >= 0 and row[t] >= 0 and in_common(starts, codes, row[s], row[t]) > 0:
                    total += 1
    return total
