"""Groups as they lie in files, integers or strings, and the numbers they become."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from batchcut._errors import wrong_dtype

from ._shards import Array, Ints

_WORDS_AT_ONCE = 4096
_KINDS = {"i": "integers", "u": "integers", "U": "strings", "T": "strings", "S": "bytes"}
_PARQUET_KINDS = {
    **{f"{sign}int{bits}": "integers" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("string", "large_string", "string_view"), "strings"),
    **dict.fromkeys(("binary", "large_binary", "binary_view", "fixed_size_binary"), "bytes"),
}


def group_kind(path: str, labels: Array) -> str:
    """What the labels in a file are: integers, strings or bytes."""
    if labels.dtype.kind not in _KINDS:
        raise wrong_dtype(path, "hold an integer or a string for each sample", labels.dtype.name)
    return _KINDS[labels.dtype.kind]


def parquet_group_kind(path: str, column: Any) -> str:
    """What the labels in a column of that type are."""
    name = str(getattr(column, "value_type", column)) if str(column).startswith("dictionary<") else str(column)
    kind = _PARQUET_KINDS.get(name.partition("[")[0])
    if kind is None:
        raise wrong_dtype(path, "hold an integer or a string for each sample in the column group", str(column))
    return kind


def group_numbers(labels: Array) -> Ints:
    """(n,) a number for each label, equal where they are, on any machine: integers as they are, strings hashed.

    Two strings with the same hash, of 64 bits, would be kept apart without need, and no more.
    """
    if labels.dtype.kind in "iu":
        return labels.astype(np.int64)
    found = np.empty(len(labels), np.int64)
    for start in range(0, len(labels), _WORDS_AT_ONCE):  # each takes the room of the longest
        words, place = np.unique(labels[start : start + _WORDS_AT_ONCE], return_inverse=True)
        found[start : start + _WORDS_AT_ONCE] = _hashes(words)[place]
    return found


def parquet_group_numbers(column: Any, first: int) -> Ints:
    """The same of a column, of which the first row is `first` in its file."""
    labels = column.to_pylist()
    if None in labels:
        raise ValueError(f"none in row {first + labels.index(None)}")
    if isinstance(labels[0], int):
        return group_numbers(np.array(labels))
    words = sorted(set(labels))
    number = dict(zip(words, _hashes(words).tolist(), strict=True))
    return np.array([number[label] for label in labels])


def _hashes(words: Iterable[object]) -> Ints:
    encoded = (str(word).encode(errors="surrogatepass") for word in words)  # NumPy's need not be whole characters
    hashes = [hashlib.blake2b(word, digest_size=8).digest() for word in encoded]
    return np.frombuffer(b"".join(hashes), "<i8").astype(np.int64)
