"""The batches of an epoch: which, how many, in what order; and what is refused."""

import copy
import itertools
import pickle
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling._helpers import DIM, Spy, filled, flat, pairs

from batchcut.sampling import EmbeddingBank, EpochSampler, PlannedBatchSampler, Sharding
from batchcut.selection import BatchPlan, Cut, Ordered, Selector, Shuffle, Spectral, random_partition

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


def passes(sampler: PlannedBatchSampler, epochs: int) -> list[list[list[int]]]:
    return [list(sampler) for _ in range(epochs)]


# Every sample once, and the order.


@settings(max_examples=60)
@given(
    n=st.integers(4, 60),
    size=st.integers(2, 20),
    seed=st.integers(0, 5),
    epoch=st.integers(0, 4),
    shuffle_batches=st.booleans(),
    seen=st.floats(0, 1),
)
def test_every_sample_at_most_once_and_none_left_out_twice_running(
    n: int, size: int, seed: int, epoch: int, shuffle_batches: bool, seen: float
) -> None:
    size = min(size, n)
    bank = EmbeddingBank(n, DIM)
    some = torch.arange(round(seen * n))
    bank.record(some, *(side[some] for side in pairs(n)))

    def batches_of(epoch: int) -> list[list[int]]:
        selector = Cut(threads=1)
        sampler = PlannedBatchSampler(
            bank, batch_size=size, selector=selector, seed=seed, shuffle_batches=shuffle_batches
        )
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
        sharding = Sharding(rank=rank, world=world, mode=mode, together=False)
        sampler = PlannedBatchSampler(
            bank,
            batch_size=size,
            selector=Cut(threads=1),
            leftover="short",
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
    sampler = PlannedBatchSampler(bank, batch_size=5, selector=Cut(), seed=3, shuffle_batches=False)
    sampler.set_epoch(2)
    plan = Cut()(bank.u, bank.v, batch_size=5, seed=3, epoch=2)
    assert list(sampler) == plan.batches.tolist()
    assert sampler.plan == plan
    assert sampler.plan is not None
    assert sampler.plan.mean_loss > Shuffle()(bank.u, bank.v, batch_size=5).mean_loss


def test_a_plan_with_samples_left_out_speaks_of_the_whole_set() -> None:
    sampler = PlannedBatchSampler(filled(43), batch_size=5, warmup=0)
    batches = list(sampler)
    assert sampler.plan is not None
    assert sampler.plan.count == 43
    assert sampler.plan.leftover == "rotate"
    assert sorted(flat(batches) + sampler.plan.left_over.tolist()) == list(range(43))


def test_shuffle_batches_changes_the_order_alone() -> None:
    bank = filled(40)
    ordered = PlannedBatchSampler(bank, batch_size=5, shuffle_batches=False, warmup=0)
    shuffled = PlannedBatchSampler(bank, batch_size=5, shuffle_batches=True, warmup=0)
    first, second = list(ordered), list(shuffled)
    assert first != second
    assert sorted(first) == sorted(second)


def test_a_short_batch_stands_last() -> None:
    sampler = PlannedBatchSampler(filled(23), batch_size=5, leftover="short")
    for batches in passes(sampler, 5):
        assert [len(batch) for batch in batches] == [5, 5, 5, 5, 3]


def test_batches_are_lists_of_int() -> None:
    batch = next(iter(PlannedBatchSampler(filled(10), batch_size=5)))
    assert type(batch) is list
    assert {type(index) for index in batch} == {int}


# The length.


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
@pytest.mark.parametrize("leftover", ["rotate", "short"])
@pytest.mark.parametrize("sharding", [None, Sharding(rank=1, world=2, together=False)], ids=["one", "two"])
def test_length_is_exact_before_during_and_after(selector: Selector, leftover: Any, sharding: Sharding | None) -> None:
    bank = EmbeddingBank(18, DIM)
    sampler = PlannedBatchSampler(bank, batch_size=4, selector=selector, leftover=leftover, warmup=2, sharding=sharding)
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
            sharding = Sharding(rank=rank, world=2, together=False)
            sampler = PlannedBatchSampler(bank, batch_size=4, selector=selector, sharding=sharding)
            sampler.set_epoch(epoch)
            batches = list(sampler)
            counts.add(len(batches))
            assert {len(batch) for batch in batches} == {sampler.batch_size} == {4}
            assert all(len(set(batch)) == 4 for batch in batches)
        assert len(counts) == 1


def test_batches_drawn_with_replacement_are_never_cut_and_joined() -> None:
    """Else a sample could be in a batch twice, its own negative."""
    sharding = Sharding(rank=0, world=2, together=False)
    sampler = PlannedBatchSampler(
        filled(19), batch_size=4, selector=Ordered(exact=True, q=5), leftover="short", warmup=0, sharding=sharding
    )
    assert len(sampler) == 2
    assert [len(set(batch)) for batch in sampler] == [4, 4]


@dataclass(frozen=True)
class Half:
    """A selector that leaves out half of the batches."""

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        return Ordered(k=2)(u, v, **arguments)


@dataclass(frozen=True)
class Again:
    """A selector that takes samples twice, in as many batches as a partition has."""

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        return Shuffle(replacement="with")(u, v, **arguments)


@dataclass(frozen=True)
class Rows:
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
    sampler = PlannedBatchSampler(filled(20), batch_size=5, selector=selector, warmup=0)
    with pytest.raises(error, match=rf"^{message}$"):
        list(sampler)


# Epochs.


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


def test_warmup_and_empty_bank_shuffle() -> None:
    calls: list[Any] = []
    bank = EmbeddingBank(20, DIM)
    sampler = PlannedBatchSampler(bank, batch_size=5, selector=Spy(calls=calls), warmup=3)
    passes(sampler, 3)
    assert not calls
    list(sampler)  # over, but nothing was recorded
    assert not calls
    bank.record(torch.arange(20), *pairs(20))
    list(sampler)
    assert [call["epoch"] for call in calls] == [4]


def test_refresh_plans_every_so_many_epochs() -> None:
    calls: list[Any] = []
    bank = filled(40)
    sampler = PlannedBatchSampler(bank, batch_size=5, selector=Spy(calls=calls), refresh=3)
    sets = []
    for epoch in range(8):
        sets.append(frozenset(map(frozenset, sampler)))
        bank.record(torch.arange(40), *pairs(40, seed=epoch + 1))
    assert [call["epoch"] for call in calls] == [1, 4, 7]
    assert sets[1] == sets[2] == sets[3] != sets[4]
    assert sets[4] == sets[5] == sets[6] != sets[7]


def test_refresh_leaves_out_none_twice_running() -> None:
    groups = np.arange(43) // 2
    sampler = PlannedBatchSampler(filled(43), batch_size=5, refresh=4, groups=groups)
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
    assert PlannedBatchSampler(bank, batch_size=6, leftover="short").batch_size is None
    split = Sharding(rank=1, world=3, mode="split", together=False)
    assert PlannedBatchSampler(bank, batch_size=6, sharding=split).batch_size == 2


# What a plan is made of.


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
        sampler = PlannedBatchSampler(filled(31), batch_size=6, groups=groups, leftover="short", seed=seed)
        for batches in passes(sampler, 2):
            assert [len(batch) for batch in batches] == [6, 6, 6, 6, 4, 3]
            assert all(len(set(groups[batch])) == len(batch) for batch in batches)


def test_the_plan_tells_of_rows_that_a_device_refused() -> None:
    """Off the CPU, recording waits for no value; what was refused is counted there, and told before the next plan."""
    bank = filled(40)
    bank._refused += 3
    with pytest.warns(RuntimeWarning, match="^3 embeddings were NaN"):
        list(PlannedBatchSampler(bank, batch_size=5, warmup=0))


def test_what_the_selector_gets() -> None:
    calls: list[Any] = []
    told: list[float] = []
    bank = EmbeddingBank(12, DIM)
    u, v = pairs(12)
    bank.record(torch.arange(9), u[:9], v[:9])
    sampler = PlannedBatchSampler(
        bank, batch_size=5, selector=Spy(calls=calls), seed=2, warmup=0, progress=told.append, groups=range(12)
    )
    used = sorted(flat(sampler))
    (call,) = calls
    assert (call["batch_size"], call["seed"], call["epoch"], call["leftover"]) == (5, 2, 0, "short")
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
        for batch in PlannedBatchSampler(bank, batch_size=6, warmup=0, seed=seed):
            together |= {(i, j) for i in batch for j in batch if 30 <= i < j}
    assert len(together) > 180  # of 435 pairs; batches at random have 221


def test_half_precision_bank_plans() -> None:
    bank = EmbeddingBank(40, DIM, dtype=torch.float16)
    bank.record(torch.arange(40), *pairs(40))
    sampler = PlannedBatchSampler(bank, batch_size=5, selector=Cut(normalize=False), warmup=0)
    assert sorted(flat(sampler)) == list(range(40))


def test_a_diverged_model_is_planned_by_its_last_good_embeddings() -> None:
    bank, kept = filled(40), filled(40)
    with pytest.warns(RuntimeWarning, match="40 embeddings were NaN"):
        bank.record(torch.arange(40), torch.full((40, DIM), torch.nan), torch.full((40, DIM), torch.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once, and not again by the plan
        sampler = PlannedBatchSampler(bank, batch_size=5, warmup=0)
        assert list(sampler) == list(PlannedBatchSampler(kept, batch_size=5, warmup=0))


def test_a_model_that_never_gave_a_number_is_planned_at_random() -> None:
    bank = EmbeddingBank(40, DIM)
    with pytest.warns(RuntimeWarning, match="40 embeddings were NaN"):
        bank.record(torch.arange(40), torch.full((40, DIM), torch.nan), torch.ones(40, DIM))
    sampler = PlannedBatchSampler(bank, batch_size=5, warmup=0)
    assert sorted(flat(sampler)) == list(range(40))


# Copies.


@pytest.mark.parametrize("drawn", [0, 1, 3, 8])
def test_copies_go_on_where_it_was(drawn: int) -> None:
    sampler = PlannedBatchSampler(filled(40), batch_size=5, warmup=0, groups=np.arange(40) // 2)
    iterator = iter(sampler)
    for _ in range(drawn):
        next(iterator)
    for other in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):  # noqa: S301
        assert other.sampler._owner is other
        assert other.plan == sampler.plan
        rest = list(other)
        assert rest == list(copy.copy(iterator)) if drawn else len(rest) == 8


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 1}, "batch_size must be at least 2; got 1"),
        ({"batch_size": 21}, "batch_size must be at most 20; got 21"),
        ({"leftover": "drop"}, "leftover must be 'rotate' or 'short'; got 'drop'"),
        ({"seed": -1}, "seed must be at least 0; got -1"),
        ({"refresh": 0}, "refresh must be at least 1; got 0"),
        ({"warmup": -1}, "warmup must be at least 0; got -1"),
        ({"multiple_of": 0}, "multiple_of must be at least 1; got 0"),
        ({"groups": [1, 2]}, r"groups must hold one entry for each of the 20 samples; got shape \(2,\)"),
        (
            {"sharding": Sharding(world=5)},
            "the length of the bank must be at least 25, the samples of one step, where leftover='rotate'; got 20",
        ),
        (
            {"sharding": Sharding(world=5), "leftover": "short"},
            r"leftover must be 'rotate' where 20 samples cannot be shared in batches of up to 5; got 'short' .*",
        ),
        (
            {"sharding": Sharding(world=3, mode="split")},
            "batch_size must be a multiple of world = 3 where batches are split; got 5",
        ),
        ({"selector": Ordered(k=5)}, r"selector must make at least 1 batches of 20 samples; got 0 by Ordered\(k=5, .*"),
        (
            {"selector": Ordered(k=4), "sharding": Sharding(world=2)},
            r"selector must make at least 2 batches of 20 samples; got 1 by Ordered\(k=4, .*",
        ),
    ],
)
def test_bad_settings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^{message}$"):
        PlannedBatchSampler(filled(20), **({"batch_size": 5} | arguments))


def test_settings_of_a_wrong_type() -> None:
    with pytest.raises(TypeError, match=r"^bank must be an EmbeddingBank; got Tensor$"):
        PlannedBatchSampler(torch.ones(20, DIM), batch_size=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^groups must hold integers or strings; got float64$"):
        PlannedBatchSampler(filled(20), batch_size=5, groups=np.ones(20))
    with pytest.raises(TypeError, match=r"^epoch must be an integer; got float$"):
        PlannedBatchSampler(filled(20), batch_size=5).set_epoch(1.0)  # type: ignore[arg-type]


def test_a_sharding_without_processes_is_refused_when_it_comes_to_planning() -> None:
    sampler = PlannedBatchSampler(filled(20), batch_size=5, sharding=Sharding(rank=1, world=2))
    assert len(list(sampler)) == 2  # shuffled: the same wherever it is done
    rule = "sharding must be that of the process group, to plan together; or have together=False"
    with pytest.raises(ValueError, match=rf"^{rule}; got Sharding.* in process 0 of 1$"):
        list(sampler)


def test_whether_a_pass_will_plan() -> None:
    sampler = PlannedBatchSampler(filled(20), batch_size=4, warmup=1, refresh=2)
    said = []
    for epoch in range(5):
        sampler.set_epoch(epoch)
        said.append(sampler.will_plan)
        plan = sampler.plan
        list(sampler)
        assert (sampler.plan is not plan) == said[-1]
        assert not sampler.will_plan
    assert said == [False, True, False, True, False]
