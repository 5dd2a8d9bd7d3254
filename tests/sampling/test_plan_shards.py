"""Plans from a bank in shards: the same for any number of processes, every sample once, groups apart, little memory."""

import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling._helpers import flat, pairs
from tests.sampling._shards import Meeting, bank_of, on_threads, record_some
from tests.scale.conftest import make_pairs

from batchcut.sampling import PlannedBatchSampler, PlannedLoader, ShardedBank, Sharding, _together
from batchcut.sampling._plan_shards import Asked, _stand_ins, plan_shards
from batchcut.selection import BatchPlan, Cut, Selector, Shuffle, read_groups, resting_samples, used_samples


def asked_of(n: int, *, drop_last: bool = True, seed: int = 0, groups: Any = None, **given: Any) -> Asked:
    common: dict[str, Any] = {"batch_size": 8, "selector": Cut(threads=1), "temperature": None, "epoch": 1}
    common |= {"average_views": False} | given
    resting = resting_samples(n, unit=common["batch_size"], seed=seed, epoch=1) if drop_last else np.arange(0)
    groups = read_groups(groups, n)
    return Asked(**common, seed=seed, groups=groups, resting=np.sort(resting), drop_last=drop_last)


def planned(world: int, n: int, asked: Asked, *, seen: int | None = None, **bank: Any) -> list[Any]:
    """The plans that so many threads come to, or their errors."""
    u, v = (torch.from_numpy(side).float() for side in make_pairs(n, seed=3))

    def work(rank: int, meeting: Meeting) -> BatchPlan:
        mine = bank_of(rank, meeting, n, **{"cell_samples": 64, **bank})
        record_some(mine, np.random.default_rng(1).permutation(n)[:seen], u, v)
        mine.join()
        return plan_shards(mine, asked, lambda _: None)

    return on_threads(world, work)


@settings(max_examples=6, deadline=None)
@given(
    n=st.integers(40, 300),
    batch_size=st.integers(2, 20),
    seed=st.integers(0, 9),
    drop_last=st.booleans(),
    half=st.booleans(),
    seen=st.none() | st.integers(20, 40),
    kinds=st.sampled_from([0, 30, 60]),
    pieces=st.sampled_from([5, 16_384]),
)
def test_every_sample_once_and_the_same_on_any_number_of_processes(
    n: int, batch_size: int, seed: int, drop_last: bool, half: bool, seen: int | None, kinds: int, pieces: int
) -> None:
    rng = np.random.default_rng(seed)
    groups = np.where(rng.random(n) < 0.3, rng.integers(0, kinds, n), np.arange(n) + 100) if kinds else None
    if groups is not None and max(Counter(groups.tolist()).values()) > n // batch_size:
        groups = None
    asked = asked_of(n, batch_size=batch_size, seed=seed, drop_last=drop_last, groups=groups)
    bank: dict[str, Any] = {"seen": seen, "dtype": torch.float16 if half else torch.float32}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_together, "ROWS_AT_ONCE", pieces)
        one = planned(1, n, asked, **bank)[0]
        for plan in [plan for world in (2, 3) for plan in planned(world, n, asked, **bank)]:
            assert plan == one
    used = one.batches[one.batches >= 0]
    expected = used_samples(n, unit=batch_size, seed=seed, epoch=1, drop_last=drop_last)
    assert np.array_equal(np.sort(used), expected)
    assert len(one) == -(-len(expected) // batch_size)
    assert (one.batches[:-1] >= 0).all()
    assert one.group_pairs == 0
    if groups is not None:
        assert all(len(set(groups[row].tolist())) == len(row) for row in one)


def test_plans_are_nearly_as_hard_as_those_of_the_whole_set() -> None:
    n = 600
    plan = planned(2, n, asked_of(n, batch_size=16), cell_samples=128)[1]
    assert plan.settings["cells"] == 5
    sides = make_pairs(n, seed=3)
    assert plan.mean_loss > 1.5 * Shuffle()(*sides, batch_size=16).mean_loss
    assert plan.mean_loss > 0.9 * Cut()(*sides, batch_size=16).mean_loss


def test_a_group_that_fills_a_cell_goes_to_the_others() -> None:
    u, _ = make_pairs(512, clusters=4, seed=3)
    near = np.argsort(-(u.astype(float) @ u[0].astype(float)))[:30]
    groups = np.arange(512) + 1000
    groups[near] = 7
    plans = planned(2, 512, asked_of(512, batch_size=16, groups=groups), cell_samples=128)
    assert [plan.group_pairs for plan in plans] == [0, 0]


def test_samples_of_several_groups_are_kept_apart_in_their_cells() -> None:
    groups = [[i // 2, 1000 + i // 3] for i in range(96)]
    for plan in planned(2, 96, asked_of(96, groups=groups)):
        assert plan.group_pairs == 0


def test_by_the_mean_of_views() -> None:
    one, two = (planned(world, 200, asked_of(200, average_views=True))[0] for world in (1, 2))
    assert one == two
    assert one != planned(1, 200, asked_of(200))[0]


def test_stand_ins_are_functions_of_their_samples() -> None:
    some = np.array([3, 255, 256, 700])
    rows = _stand_ins(some, 5, 1, 2)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    assert np.array_equal(_stand_ins(some[[2, 1]], 5, 1, 2), rows[[2, 1]])
    assert not np.array_equal(_stand_ins(some, 5, 1, 3), rows)


class Wide:
    """How much a plan of wide rows takes at its peak, beside the share of a process."""

    n, dim, cell = 4096, 512, 256
    row = 2 * 4 * dim

    def peak(self, monkeypatch: pytest.MonkeyPatch) -> int:
        monkeypatch.setattr(_together, "ROWS_AT_ONCE", 64)
        monkeypatch.setattr("batchcut.sampling._plan_shards.ROWS_AT_ONCE", 64)
        bank = ShardedBank(self.n, self.dim, sharding=Sharding(), cell_samples=self.cell)
        bank.record(torch.arange(self.n), *pairs(self.n, dim=self.dim))
        bank.join()
        asked = asked_of(self.n, selector=Cut(threads=1, pool=2))
        plan_shards(bank, asked, lambda _: None)  # what is compiled takes memory once
        tracemalloc.start()
        try:
            plan_shards(bank, asked, lambda _: None)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_beside_its_share_a_process_holds_the_cell_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = Wide()
    cells = wide.peak(monkeypatch) / (wide.cell * wide.row)
    assert cells < 4  # its rows, unit rows of both sides, and what the selector makes of them; the set has 16 cells


class FailsOnce(Selector):
    """Cannot plan the cell of one sample."""

    def choose(self, request: Any) -> Any:
        if 17 in request.samples.tolist():
            raise ArithmeticError("no plan today")
        return Cut(threads=1).choose(request)


def test_a_process_that_fails_fails_all_with_its_message() -> None:
    found = planned(3, 200, asked_of(200, selector=FailsOnce()))
    failed = [rank for rank, error in enumerate(found) if isinstance(error, ArithmeticError)]
    assert len(failed) == 1
    assert str(found[failed[0]]) == "no plan today"
    for rank in set(range(3)) - set(failed):
        assert isinstance(found[rank], RuntimeError)
        assert str(found[rank]) == f"process {failed[0]} failed: ArithmeticError: no plan today"


@pytest.mark.parametrize(
    ("name", "of_process"),
    [("seed", [0, 1]), ("temperature", [0.1, None]), ("drop_last", [True, False]), ("batch_size", [4, 8])],
)
def test_processes_that_ask_for_other_plans_are_refused(name: str, of_process: list[Any]) -> None:
    def work(rank: int, meeting: Meeting) -> BatchPlan:
        bank = bank_of(rank, meeting, 64)
        bank.record(torch.arange(64), *pairs(64))
        bank.join()
        return plan_shards(bank, asked_of(64, **{name: of_process[rank]}), lambda _: None)

    for rank, error in enumerate(on_threads(2, work)):
        assert isinstance(error, ValueError)
        here, there = of_process[rank], of_process[1 - rank]
        says = f"{name} must be the same in all processes; got {here} here, and {there} in process {1 - rank}"
        assert str(error) == says


def test_processes_whose_selectors_differ_are_refused() -> None:
    def work(rank: int, meeting: Meeting) -> BatchPlan:
        bank = bank_of(rank, meeting, 64)
        bank.record(torch.arange(64), *pairs(64))
        bank.join()
        selector = Cut(threads=1, temperature=0.1 * (rank + 1))
        return plan_shards(bank, asked_of(64, selector=selector), lambda _: None)

    first, second = on_threads(2, work)
    assert str(first) == "temperature must be the same in all processes; got 0.1 here, and 0.2 in process 1"
    assert isinstance(second, ValueError)


def epochs_of(sampler: PlannedBatchSampler, count: int) -> list[list[list[int]]]:
    u, v = pairs(len(sampler.bank))
    found: list[list[list[int]]] = []
    for _ in range(count):
        found.append([])
        for index in sampler:
            found[-1].append(index)
            sampler.bank.record(torch.tensor(index), u[index], v[index])
    return found


def sampler_of(bank: ShardedBank, **given: Any) -> PlannedBatchSampler:
    return PlannedBatchSampler(bank, **{"batch_size": 6, "sharding": Sharding(), "selector": Cut(threads=1), **given})


def test_one_process_plans_its_epochs() -> None:
    bank = ShardedBank(100, sharding=Sharding(), cell_samples=24)
    sampler = sampler_of(bank, replan_every=2)
    first, second, third = epochs_of(sampler, 3)
    assert sampler.plan is not None
    assert sampler.plan.settings["cells"] == 2
    assert sampler.plan.epoch == 1
    assert all(len(set(flat(epoch))) == 96 for epoch in (first, second, third))
    assert bank.waiting == 96  # of the last epoch alone


def test_shuffled_batches_need_no_cells() -> None:
    sampler = sampler_of(ShardedBank(60, sharding=Sharding()), selector=Shuffle())
    epochs = epochs_of(sampler, 2)
    assert [sorted(flat(epoch)) for epoch in epochs] == [list(range(60))] * 2
    assert epochs[0] != epochs[1]
    assert sampler.plan is None


def test_a_loader_goes_on_from_its_state() -> None:
    data = torch.utils.data.TensorDataset(*pairs(60))

    def new() -> PlannedLoader:
        bank = ShardedBank(60, sharding=Sharding(), cell_samples=24)
        return PlannedLoader(data, batch_size=6, bank=bank, selector=Cut(threads=1))

    loader, rest = new(), []
    state: dict[str, Any] = {}
    for epoch in range(2):
        for step, (u, v) in enumerate(loader):
            if epoch == 1 and step > 4:
                rest.append(loader.index.tolist())
            loader.record(u, v)
            if (epoch, step) == (1, 4):
                state = {"sampler": loader.state_dict()["sampler"], "bank": dict(loader.bank.state_dict())}
    again = new()
    again.load_state_dict(state)
    assert [again.index.tolist() for _ in again] == rest
    assert len(rest) == 5


@pytest.mark.parametrize(
    ("bank", "given", "text"),
    [
        (Sharding(world_size=2), {}, r"sharding must be that of the bank, rank=0 of world_size=2, with together=True"),
        (Sharding(), {"sharding": Sharding(together=False)}, r"sharding must be that of the bank"),
    ],
)
def test_a_sharding_that_is_not_that_of_the_bank(bank: Sharding, given: dict[str, Any], text: str) -> None:
    sampler = sampler_of(ShardedBank(60, 4, sharding=bank), **given)
    with pytest.raises(ValueError, match=text):
        list(sampler)


class Some(Selector):
    """Takes what it likes."""

    @property
    def covers(self) -> bool:
        return False

    def choose(self, request: Any) -> Any:
        raise AssertionError("it is refused")


def test_a_selector_that_leaves_samples_out_is_refused() -> None:
    sampler = sampler_of(ShardedBank(60, 4, sharding=Sharding()), selector=Some())
    rule = "selector must be one that takes each sample once, where the bank is in shards; got Some"
    with pytest.raises(ValueError, match=rule):
        list(sampler)
