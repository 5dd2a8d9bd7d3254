"""Batches of every make that loaders give."""

from collections import OrderedDict, UserDict, namedtuple
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from batchcut.sampling._batch import has_parts, join, length, take

Pair = namedtuple("Pair", ["x", "y"])


def plain(batch: Any) -> Any:
    """The same with lists for tensors and arrays, to be compared."""
    if isinstance(batch, (torch.Tensor, np.ndarray)):
        return batch.tolist()
    if isinstance(batch, (dict, UserDict, MappingProxyType)):
        return {key: plain(value) for key, value in batch.items()}
    return [plain(part) for part in batch] if has_parts(batch) else list(batch)


CASES: dict[str, tuple[list[Any], Any]] = {
    "tensor": ([torch.arange(2), torch.arange(2, 5)], [3, 0]),
    "array": ([np.arange(2), np.arange(2, 5)], [3, 0]),
    "strings": ([["a", "b"], ["c", "d", "e"]], ["d", "a"]),
    "tuple of strings": ([("a", "b"), ("c", "d", "e")], ["d", "a"]),
    "tuple": ([(torch.arange(2), ["a", "b"]), (torch.arange(2, 5), ["c", "d", "e"])], [[3, 0], ["d", "a"]]),
    "named": ([Pair(torch.arange(2), torch.arange(2)), Pair(torch.arange(2, 5), torch.arange(3))], [[3, 0], [1, 0]]),
    "dict": ([{"x": torch.arange(2), "t": ["a", "b"]}, {"x": torch.arange(2, 5), "t": ["c", "d", "e"]}],
             {"x": [3, 0], "t": ["d", "a"]}),
    "other mapping": ([UserDict(x=torch.arange(2)), UserDict(x=torch.arange(2, 5))], {"x": [3, 0]}),
    "frozen mapping": ([MappingProxyType({"x": torch.arange(2)}), MappingProxyType({"x": torch.arange(2, 5)})],
                       {"x": [3, 0]}),
    "nested": ([[{"x": torch.arange(2)}, ("a", "b")], [{"x": torch.arange(2, 5)}, ("c", "d", "e")]],
               [{"x": [3, 0]}, ["d", "a"]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_join_and_take(name: str) -> None:
    batches, expected = CASES[name]
    assert [length(batch) for batch in batches] == [2, 3]
    joined = join(batches)
    assert length(joined) == 5
    taken = take(joined, [3, 0])
    assert plain(taken) == expected
    assert length(taken) == 2


@pytest.mark.parametrize("name", sorted(set(CASES) - {"frozen mapping"}))
def test_containers_keep_their_type(name: str) -> None:
    batches, _ = CASES[name]
    assert type(take(join(batches), [0])) is type(join(batches)) is type(batches[0])


def test_the_batches_that_came_in_are_left_alone() -> None:
    first = OrderedDict(x=torch.arange(2))
    take(join([first, OrderedDict(x=torch.arange(3))]), [0])
    assert first["x"].tolist() == [0, 1]


def test_what_default_collate_makes_of_pairs_of_texts() -> None:
    batches = [default_collate([("a", "A"), ("b", "B")]), default_collate([("c", "C")])]
    assert plain(take(join(batches), [2, 0])) == [["c", "a"], ["C", "A"]]


def test_what_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match=r"^stream must yield samples of one shape, .*; got \(3,\) and \(5,\)$"):
        join([{"ids": torch.ones(2, 5)}, {"ids": torch.ones(2, 3)}])
    with pytest.raises(
        ValueError, match=r"^batch must hold as many samples in each .*; got fields of \[2, 3\] samples$"
    ):
        length((torch.ones(2), torch.ones(3)))
    with pytest.raises(TypeError, match=r"^batch must be made of tensors, arrays, lists, .*; got int$"):
        length({"x": torch.ones(2), "weight": 3})
    with pytest.raises(ValueError, match=r"^batch must hold a row for each sample; got a single number$"):
        length({"x": torch.ones(2), "weight": torch.tensor(3.0)})
