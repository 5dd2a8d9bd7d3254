"""The batches of an epoch: every sample once, in an order that follows from seed and epoch."""

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling._helpers import DIM, filled, flat, pairs, passes

from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, Sharding
from batchcut.selection import Cut, Shuffle, random_partition


@settings(max_examples=60)
@given(
    n=st.integers(4, 60),
    size=st.integers(2, 20),
    seed=st.integers(0, 5),
    epoch=st.integers(0, 4),
    seen=st.floats(0, 1),
)
def test_every_sample_at_most_once_and_none_left_out_twice_running(
    n: int, size: int, seed: int, epoch: int, seen: float
) -> None:
    size = min(size, n)
    bank = EmbeddingBank(n, DIM)
    some = torch.arange(round(seen * n))
    bank.record(some, *(side[some] for side in pairs(n)))

    def batches_of(epoch: int) -> list[list[int]]:
        selector = Cut(threads=1)
        sampler = PlannedBatchSampler(bank, batch_size=size, selector=selector, seed=seed)
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert len(sampler) == len(batches)
        return batches

    now, again, then = batches_of(epoch), batches_of(epoch), batches_of(epoch + 1)
    assert now == again  # a function of (seed, epoch) and the bank
    assert all(len(batch) == size for batch in now)
    assert len(now) == n // size
    assert len(set(flat(now))) == len(flat(now))
    assert set(flat(now)) | set(flat(then)) == set(range(n))


@settings(max_examples=40)
@given(
    n=st.integers(8, 80),
    size=st.integers(4, 20),
    world=st.integers(1, 3),
    mode=st.sampled_from(["whole", "split"]),
    multiple_of=st.integers(1, 2),
    epoch=st.integers(0, 3),
)
def test_short_has_every_sample_every_epoch_over_all_processes(
    n: int, size: int, world: int, mode: Any, multiple_of: int, epoch: int
) -> None:
    size = min(size, n) // world * world if mode == "split" else min(size, n)
    if -(-n // max(size, 1)) < world * multiple_of or size < 2 * max(2, world if mode == "split" else 2):
        return
    bank, shares = filled(n), []
    for rank in range(world):
        sharding = Sharding(rank=rank, world_size=world, mode=mode, together=False)
        sampler = PlannedBatchSampler(
            bank,
            batch_size=size,
            selector=Cut(threads=1),
            drop_last=False,
            multiple_of=multiple_of,
            sharding=sharding,
        )
        sampler.set_epoch(epoch)
        before = len(sampler)
        shares.append(list(sampler))
        assert before == len(sampler) == len(shares[-1])
        if sampler.batch_size is not None:
            assert {len(batch) for batch in shares[-1]} == {sampler.batch_size}
    assert sorted(i for share in shares for i in flat(share)) == list(range(n))
    assert len({len(share) for share in shares}) == 1
    assert len(shares[0]) % multiple_of == 0


def test_order_changes_with_seed_and_epoch() -> None:
    bank = filled(40)
    orders = []
    for seed, epoch in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]:
        sampler = PlannedBatchSampler(bank, batch_size=5, seed=seed)
        sampler.set_epoch(epoch)
        orders.append(tuple(flat(sampler)))
    assert len(set(orders)) == 5


def test_the_first_epoch_is_shuffled_as_shuffle_would() -> None:
    sampler = PlannedBatchSampler(filled(40), batch_size=5, seed=3)
    shuffled = random_partition(40, batch_size=5, seed=3, epoch=0)
    assert sorted(map(tuple, sampler)) == sorted(map(tuple, shuffled.tolist()))
    assert sampler.plan is None


def test_later_epochs_are_those_that_the_selector_plans() -> None:
    bank = filled(40)
    sampler = PlannedBatchSampler(bank, batch_size=5, selector=Cut(), seed=3)
    sampler.set_epoch(2)
    plan = Cut()(bank.u, bank.v, batch_size=5, seed=3, epoch=2)
    batches = list(sampler)
    assert sorted(batches) == sorted(plan.batches.tolist())
    assert batches != plan.batches.tolist()  # their order is random
    assert sampler.plan == plan
    assert sampler.plan is not None
    assert sampler.plan.mean_loss > Shuffle()(bank.u, bank.v, batch_size=5).mean_loss
    assert sampler.plan.effective is None  # nobody has looked


def test_a_plan_is_measured_by_what_the_bank_holds() -> None:
    bank = filled(43)
    sampler = PlannedBatchSampler(bank, batch_size=5, seed=3, shuffled_epochs=0)
    assert sampler.measured_plan() is None
    list(sampler)
    measured = sampler.measured_plan()
    assert measured == sampler.plan is not None
    assert measured is not None
    assert measured.effective == sampler.plan.measured(bank.u, bank.v).effective is not None
    bank.record(torch.arange(43), bank.v.roll(1, 0), bank.u)
    later = sampler.measured_plan()
    assert later is not None
    assert later.effective != measured.effective


def test_a_plan_with_samples_left_out_speaks_of_the_whole_set() -> None:
    sampler = PlannedBatchSampler(filled(43), batch_size=5, shuffled_epochs=0)
    batches = list(sampler)
    assert sampler.plan is not None
    assert sampler.plan.count == 43
    assert sampler.plan.drop_last
    assert sorted(flat(batches) + sampler.plan.left_over.tolist()) == list(range(43))


def test_a_short_batch_stands_last() -> None:
    sampler = PlannedBatchSampler(filled(23), batch_size=5, drop_last=False)
    for batches in passes(sampler, 5):
        assert [len(batch) for batch in batches] == [5, 5, 5, 5, 3]


def test_batches_are_lists_of_int() -> None:
    batch = next(iter(PlannedBatchSampler(filled(10), batch_size=5)))
    assert type(batch) is list
    assert {type(index) for index in batch} == {int}
