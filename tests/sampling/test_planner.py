"""What a plan is made of: groups, samples never seen, the last good embeddings."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from tests.sampling._helpers import DIM, Spy, filled, flat, pairs, passes

from batchcut.sampling import EmbeddingBank, PlannedBatchSampler
from batchcut.selection import Cut, Request, Selector


def test_groups_are_kept_apart_in_every_epoch() -> None:
    groups = np.repeat(np.arange(10), 4)
    bank = EmbeddingBank(40, DIM)
    side = pairs(10)[0][torch.from_numpy(groups)]
    bank.record(torch.arange(40), side, side)  # members of a group are the same: the hardest of all
    for labels in (groups, [f"text {g}" for g in groups], torch.from_numpy(groups)):
        sampler = PlannedBatchSampler(bank, batch_size=5, groups=labels)
        for batches in passes(sampler, 3):
            assert all(len(set(groups[batch])) == 5 for batch in batches)


def test_groups_are_kept_apart_when_some_samples_are_left_out() -> None:
    groups = np.arange(43) % 20
    sampler = PlannedBatchSampler(filled(43), batch_size=5, groups=groups)
    for batches in passes(sampler, 4):
        assert all(len(set(groups[batch])) == 5 for batch in batches)


def test_groups_are_kept_apart_where_a_lone_last_sample_gets_company() -> None:
    groups = np.arange(31) % 15
    for seed in range(10):
        sampler = PlannedBatchSampler(filled(31), batch_size=6, groups=groups, drop_last=False, seed=seed)
        for batches in passes(sampler, 2):
            assert [len(batch) for batch in batches] == [6, 6, 6, 6, 4, 3]
            assert all(len(set(groups[batch])) == len(batch) for batch in batches)


def test_the_plan_tells_of_rows_that_a_device_refused() -> None:
    """Off the CPU, recording waits for no value; what was refused is counted there, and told before the next plan."""
    bank = filled(40)
    bank._refused += 3
    with pytest.warns(RuntimeWarning, match="^3 embeddings were NaN"):
        list(PlannedBatchSampler(bank, batch_size=5, shuffled_epochs=0))


def test_what_the_selector_gets() -> None:
    calls: list[Any] = []
    told: list[float] = []
    bank = EmbeddingBank(12, DIM)
    u, v = pairs(12)
    bank.record(torch.arange(9), u[:9], v[:9])
    sampler = PlannedBatchSampler(
        bank, batch_size=5, selector=Spy(calls=calls), seed=2, shuffled_epochs=0, progress=told.append, groups=range(12)
    )
    used = sorted(flat(sampler))
    (call,) = calls
    assert (call["batch_size"], call["seed"], call["epoch"], call["drop_last"]) == (5, 2, 0, False)
    assert told[-1] == 1.0
    for place, sample in enumerate(used):
        if sample < 9:
            assert torch.equal(call["u"][place], u[sample])
            assert torch.equal(call["v"][place], v[sample])
        else:  # never seen: a random unit row, the same on both sides
            assert torch.equal(call["u"][place], call["v"][place])
            assert call["u"][place].norm() == pytest.approx(1)
    assert len(call["u"].unique(dim=0)) == 10
    assert bank.seen.sum() == 9


def test_samples_never_seen_end_up_anywhere() -> None:
    bank = EmbeddingBank(60, DIM)
    side = pairs(60)
    bank.record(torch.arange(30), side[0][:30], side[1][:30])
    together = set()
    for seed in range(8):
        for batch in PlannedBatchSampler(bank, batch_size=6, shuffled_epochs=0, seed=seed):
            together |= {(i, j) for i in batch for j in batch if 30 <= i < j}
    assert len(together) > 180  # of 435 pairs; batches at random have 221


def test_half_precision_bank_plans() -> None:
    bank = EmbeddingBank(40, DIM, dtype=torch.float16)
    bank.record(torch.arange(40), *pairs(40))
    sampler = PlannedBatchSampler(bank, batch_size=5, shuffled_epochs=0)
    assert sorted(flat(sampler)) == list(range(40))


def test_a_diverged_model_is_planned_by_its_last_good_embeddings() -> None:
    bank, kept = filled(40), filled(40)
    with pytest.warns(RuntimeWarning, match="40 embeddings were NaN"):
        bank.record(torch.arange(40), torch.full((40, DIM), torch.nan), torch.full((40, DIM), torch.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once, and not again by the plan
        sampler = PlannedBatchSampler(bank, batch_size=5, shuffled_epochs=0)
        assert list(sampler) == list(PlannedBatchSampler(kept, batch_size=5, shuffled_epochs=0))


def test_a_model_that_never_gave_a_number_is_planned_at_random() -> None:
    bank = EmbeddingBank(40, DIM)
    with pytest.warns(RuntimeWarning, match="40 embeddings were NaN"):
        bank.record(torch.arange(40), torch.full((40, DIM), torch.nan), torch.ones(40, DIM))
    sampler = PlannedBatchSampler(bank, batch_size=5, shuffled_epochs=0)
    assert sorted(flat(sampler)) == list(range(40))


@dataclass(frozen=True, kw_only=True)
class ByLength(Selector):
    lengths: Any

    def choose(self, request: Request) -> Any:
        order = np.argsort(self.lengths[request.samples[request.used]], kind="stable")
        return request.parted(request.deal(request.used[order]))


@pytest.mark.parametrize("drop_last", [True, False])
def test_a_selector_that_knows_something_of_each_sample_meets_it_by_its_number(drop_last: bool) -> None:
    """Where some samples sit out, the rows that a selector gets are numbered anew."""
    lengths = np.random.default_rng(0).permutation(43)
    sampler = PlannedBatchSampler(
        filled(43), batch_size=5, selector=ByLength(lengths=lengths), shuffled_epochs=0, drop_last=drop_last
    )
    for epoch in range(3):
        sampler.set_epoch(epoch)
        assert all(np.ptp(lengths[batch]) <= 7 for batch in sampler)
        assert sampler.plan is not None
        assert len(sampler.plan.summary()) < 800


def test_a_state_tells_selectors_apart_by_all_of_their_settings() -> None:
    """The words of an array leave out most of it."""
    first, second = np.arange(2000), np.arange(2000)
    second[1000] += 1
    for lengths in (np.arange(2000), tuple(range(2000))):
        sampler = PlannedBatchSampler(filled(40), batch_size=5, selector=ByLength(lengths=lengths))
        assert len(sampler.state_dict()["selector"]) < 120
    states = [
        PlannedBatchSampler(filled(40), batch_size=5, selector=ByLength(lengths=rows)).state_dict()
        for rows in (first, second, tuple(first), tuple(second))
    ]
    assert len({state["selector"] for state in states}) == 4
    fresh = PlannedBatchSampler(filled(40), batch_size=5, selector=ByLength(lengths=first.copy()))
    fresh.load_state_dict(states[0])
    with pytest.raises(ValueError, match=r"^state must be of a sampler with selector = "):
        fresh.load_state_dict(states[1])


def test_threads_are_no_part_of_a_state() -> None:
    one, two = (PlannedBatchSampler(filled(40), batch_size=5, selector=Cut(threads=threads)) for threads in (1, 2))
    two.load_state_dict(one.state_dict())
    assert two.state_dict() == one.state_dict()
