"""Which epoch a pass is, and which of them share a plan."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from tests.sampling._helpers import DIM, Spy, filled, flat, pairs, passes

from batchcut.sampling import EmbeddingBank, EpochSampler, PlannedBatchSampler, Sharding


def test_each_pass_is_the_next_epoch_until_set_epoch_is_called() -> None:
    bank = filled(40)
    free, told = (PlannedBatchSampler(bank, batch_size=5) for _ in range(2))
    expected = []
    for epoch in range(3):
        told.set_epoch(epoch)
        expected.append(list(told))
    assert passes(free, 3) == expected
    assert free.epoch == 2
    free.set_epoch(1)
    assert passes(free, 2) == [expected[1], expected[1]]


def test_an_iterator_that_is_not_drawn_from_is_no_pass() -> None:
    sampler = PlannedBatchSampler(filled(20), batch_size=5)
    iter(sampler)
    iter(sampler)
    assert sampler.epoch == 0
    sampler.set_epoch(4)
    assert sampler.plan is None
    iter(sampler)
    assert sampler.plan is None  # no plan is made for it


def test_a_pass_that_is_left_in_its_middle_is_over() -> None:
    bank = filled(20)
    sampler, other = (PlannedBatchSampler(bank, batch_size=5) for _ in range(2))
    for _ in sampler:
        break
    list(other)
    assert list(sampler) == list(other)
    assert sampler.epoch == 1


def test_epochs_in_any_order() -> None:
    bank = filled(40)
    sampler = PlannedBatchSampler(bank, batch_size=5)
    orders: dict[int, Any] = {}
    for epoch in (3, 0, 2, 1, 3, 2, 0):
        sampler.set_epoch(epoch)
        assert orders.setdefault(epoch, list(sampler)) == list(sampler)
    assert len({str(order) for order in orders.values()}) == 4


def test_two_iterators_at_once_do_not_disturb_each_other() -> None:
    bank = filled(40)
    alone = passes(PlannedBatchSampler(bank, batch_size=5), 2)
    sampler = PlannedBatchSampler(bank, batch_size=5)
    first = iter(sampler)
    drawn = [next(first)]
    second = iter(sampler)
    other = [next(second), next(second)]
    drawn += list(first)
    assert sampler.state_dict()["position"] == 2  # of the pass that was begun last
    assert [drawn, other + list(second)] == alone


def test_shuffled_epochs_and_an_empty_bank_shuffle() -> None:
    calls: list[Any] = []
    bank = EmbeddingBank(20, DIM)
    sampler = PlannedBatchSampler(bank, batch_size=5, selector=Spy(calls=calls), shuffled_epochs=3)
    passes(sampler, 3)
    assert not calls
    with pytest.warns(RuntimeWarning, match="nothing was recorded"):  # over, but there is nothing to plan by
        list(sampler)
    assert not calls
    bank.record(torch.arange(20), *pairs(20))
    list(sampler)
    assert [call["epoch"] for call in calls] == [4]


def test_replan_every_plans_every_so_many_epochs() -> None:
    calls: list[Any] = []
    bank = filled(40)
    sampler = PlannedBatchSampler(bank, batch_size=5, selector=Spy(calls=calls), replan_every=3)
    sets = []
    for epoch in range(8):
        sets.append(frozenset(map(frozenset, sampler)))
        bank.record(torch.arange(40), *pairs(40, seed=epoch + 1))
    assert [call["epoch"] for call in calls] == [1, 4, 7]
    assert sets[1] == sets[2] == sets[3] != sets[4]
    assert sets[4] == sets[5] == sets[6] != sets[7]


def test_refresh_leaves_out_none_twice_running() -> None:
    groups = np.arange(43) // 2
    sampler = PlannedBatchSampler(filled(43), batch_size=5, replan_every=4, groups=groups)
    batches = passes(sampler, 9)
    for now, then in itertools.pairwise(batches):
        assert len(set(flat(now))) == 40
        assert set(flat(now)) | set(flat(then)) == set(range(43))
    assert all(len({index // 2 for index in batch}) == 5 for epoch in batches for batch in epoch)
    kept = [set(map(frozenset, epoch)) for epoch in batches]
    assert len(kept[1] & kept[2]) >= 2  # but for the few that were exchanged, the plan is the same


def test_epoch_sampler_is_what_frameworks_look_for() -> None:
    bank = filled(20)
    sampler, other = (PlannedBatchSampler(bank, batch_size=5) for _ in range(2))
    assert isinstance(sampler.sampler, EpochSampler)
    assert not hasattr(sampler.sampler, "generator")
    sampler.sampler.set_epoch(3)
    other.set_epoch(3)
    assert sampler.epoch == 3
    assert list(sampler.sampler) == flat(other)
    assert (sampler.batch_size, sampler.drop_last) == (5, True)
    assert PlannedBatchSampler(bank, batch_size=6, drop_last=False).batch_size is None
    split = Sharding(rank=1, world_size=3, mode="split", together=False)
    assert PlannedBatchSampler(bank, batch_size=6, sharding=split).batch_size == 2


def test_whether_a_pass_will_plan() -> None:
    sampler = PlannedBatchSampler(filled(20), batch_size=4, shuffled_epochs=1, replan_every=2)
    said = []
    for epoch in range(5):
        sampler.set_epoch(epoch)
        said.append(sampler.will_plan)
        plan = sampler.plan
        list(sampler)
        assert (sampler.plan is not plan) == said[-1]
        assert not sampler.will_plan
    assert said == [False, True, False, True, False]
