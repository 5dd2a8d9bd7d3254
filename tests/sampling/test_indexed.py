"""A data set that says which sample each item is."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from batchcut.sampling import Indexed


class OneByOne(Dataset[str]):
    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> str:
        return f"item {index}"


class AtOnce(OneByOne):
    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def __getitems__(self, indices: list[int]) -> list[str]:
        self.asked.append(indices)
        return [f"many {index}" for index in indices]


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_gives_the_index_as_a_tensor(workers: int) -> None:
    loader = DataLoader(Indexed(OneByOne()), batch_sampler=[[6, 0], [3]], num_workers=workers)
    (first, texts), (second, _) = list(loader)
    assert isinstance(first, torch.Tensor)
    assert (first.tolist(), second.tolist()) == ([6, 0], [3])
    assert list(texts) == ["item 6", "item 0"]


def test_whole_batches_are_fetched_at_once() -> None:
    data = AtOnce()
    batches = list(DataLoader(Indexed(data), batch_sampler=[[6, 0], [3]]))
    assert data.asked == [[6, 0], [3]]
    assert list(batches[0][1]) == ["many 6", "many 0"]


def test_a_subset_is_indexed_by_its_own_places() -> None:
    subset: Any = Subset(TensorDataset(torch.arange(10)), [9, 8, 7])
    (index, (x,)), *_ = DataLoader(Indexed(subset), batch_sampler=[[2, 0]])
    assert (index.tolist(), x.tolist()) == ([2, 0], [7, 9])


def test_length_and_items() -> None:
    indexed = Indexed(OneByOne())
    assert len(indexed) == 7
    assert indexed[2] == (2, "item 2")


def test_a_stream_is_refused() -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter([1])

    rule = "dataset must have items by index; for a stream there is StreamPlanner"
    with pytest.raises(TypeError, match=rf"^{rule}; got Stream$"):
        Indexed(Stream())


def test_too_few_items() -> None:
    class Broken(OneByOne):
        def __getitems__(self, indices: list[int]) -> list[str]:
            return ["one"]

    with pytest.raises(ValueError, match=r"^dataset.__getitems__ must give 2 items for as many indices; got 1$"):
        Indexed(Broken()).__getitems__([1, 2])
