"""The length of an epoch: exact for every selector, before, during and after a pass."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.sampling._helpers import DIM, Called, filled, pairs

from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, Sharding
from batchcut.selection import BatchPlan, Cut, Ordered, Selector, Shuffle, Spectral

SELECTORS: list[Any] = [
    Cut(threads=1),
    Spectral(),
    Shuffle(),
    Shuffle(replacement="fixed"),
    Shuffle(replacement="with"),
    Shuffle(replacement="with", per_step=3),
    Ordered(k=2),
    Ordered(k=3, q=2),
    Ordered(k=3, q=2, replacement=True),
    Ordered(exact=True, q=5),
]


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("sharding", [None, Sharding(rank=1, world_size=2, together=False)], ids=["one", "two"])
def test_length_is_exact_before_during_and_after(
    selector: Selector, drop_last: bool, sharding: Sharding | None
) -> None:
    bank = EmbeddingBank(18, DIM)
    sampler = PlannedBatchSampler(
        bank, batch_size=4, selector=selector, drop_last=drop_last, shuffled_epochs=2, sharding=sharding
    )
    for epoch in range(4):
        sampler.set_epoch(epoch)
        before = len(sampler)
        iterator = iter(sampler)
        lengths = {before, len(sampler)}
        count = 0
        for batch in iterator:
            count += 1
            lengths.add(len(sampler))
            rows = torch.tensor(batch)
            bank.record(rows, *(side[rows] for side in pairs(18)))
        assert lengths == {count, len(sampler)} == {count}
        assert count > 0


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
def test_rotate_gives_batches_of_one_size_to_all_processes(selector: Selector) -> None:
    bank = filled(18)
    for epoch in range(3):
        counts = set()
        for rank in range(2):
            sharding = Sharding(rank=rank, world_size=2, together=False)
            sampler = PlannedBatchSampler(bank, batch_size=4, selector=selector, sharding=sharding)
            sampler.set_epoch(epoch)
            batches = list(sampler)
            counts.add(len(batches))
            assert {len(batch) for batch in batches} == {sampler.batch_size} == {4}
            assert all(len(set(batch)) == 4 for batch in batches)
        assert len(counts) == 1


def test_batches_drawn_with_replacement_are_never_cut_and_joined() -> None:
    """Else a sample could be in a batch twice, its own negative."""
    sharding = Sharding(rank=0, world_size=2, together=False)
    sampler = PlannedBatchSampler(
        filled(19),
        batch_size=4,
        selector=Ordered(exact=True, q=5),
        drop_last=False,
        shuffled_epochs=0,
        sharding=sharding,
    )
    assert len(sampler) == 2
    assert [len(set(batch)) for batch in sampler] == [4, 4]


@pytest.mark.parametrize("selector", [Cut(pool=3), Spectral(pool=3)])
def test_a_pool_that_does_not_divide_leaves_the_length_alone(selector: Selector) -> None:
    sampler = PlannedBatchSampler(filled(40), batch_size=4, selector=selector, shuffled_epochs=0)
    assert len(sampler) == len(list(sampler)) == 10


class Half(Called):
    """A selector that leaves out half of the batches."""

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        return Ordered(k=2)(u, v, **arguments)


class Again(Called):
    """A selector that takes samples twice, in as many batches as a partition has."""

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        return Shuffle(replacement="with")(u, v, **arguments)


class Rows(Called):
    """A selector that gives an array."""

    def __call__(self, u: Any, v: Any, **arguments: Any) -> Any:
        return np.arange(20).reshape(4, 5)


@pytest.mark.parametrize(
    ("selector", "error", "message"),
    [
        (Half(), ValueError, r"selector must give 4 batches of 5; got shape \(2, 5\)"),
        (Again(), ValueError, "selector must put each sample in one batch; got repeats"),
        (Rows(), TypeError, "selector must give a BatchPlan; got ndarray"),
    ],
)
def test_a_selector_that_breaks_the_length(selector: Any, error: type[Exception], message: str) -> None:
    sampler = PlannedBatchSampler(filled(20), batch_size=5, selector=selector, shuffled_epochs=0)
    with pytest.raises(error, match=rf"^{message}$"):
        list(sampler)
