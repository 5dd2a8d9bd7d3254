"""The real DataLoader and the real StatefulDataLoader, in this process and with workers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.sampling._helpers import DIM, data_set, flat, pairs
from torch.utils.data import DataLoader, TensorDataset

from batchcut.sampling import EmbeddingBank, PlannedBatchSampler
from batchcut.selection import BatchPlan, Cut

N, B, K = 43, 5, 8
LOADERS: dict[str, dict[str, Any]] = {
    "in this process": {},
    "two workers": {"num_workers": 2},
    "persistent workers": {"num_workers": 2, "persistent_workers": True},
    "far ahead": {"num_workers": 2, "prefetch_factor": 10},
}


def new(**settings: Any) -> PlannedBatchSampler:
    return PlannedBatchSampler(EmbeddingBank(N, DIM), **({"batch_size": B, "seed": 1} | settings))


def record(bank: EmbeddingBank, index: torch.Tensor) -> None:
    bank.record(index, *(side[index] for side in pairs(N, seed=bank.clock)))


def train(bank: EmbeddingBank, loader: Iterable[Any], limit: int | None = None) -> list[list[int]]:
    """A pass over a loader, or the beginning of one."""
    drawn = []
    for index, (u, v) in loader:
        assert torch.equal(u, pairs(N)[0][index])
        assert torch.equal(v, pairs(N)[1][index])
        record(bank, index)
        drawn.append(index.tolist())
        if len(drawn) == limit:
            break
    return drawn


def by_hand(told: bool, epochs: int, **settings: Any) -> list[list[list[int]]]:
    """What a loop over the sampler itself gives."""
    sampler, passes = new(**settings), []
    for epoch in range(epochs):
        if told:
            sampler.set_epoch(epoch)
        drawn = []
        for batch in sampler:
            record(sampler.bank, torch.tensor(batch))
            drawn.append(batch)
        passes.append(drawn)
    return passes


@pytest.mark.parametrize("told", [True, False], ids=["set_epoch", "by itself"])
@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_yields_what_the_sampler_does(name: str, told: bool) -> None:
    sampler = new(drop_last=False)
    loader = DataLoader(data_set(N), batch_sampler=sampler, **LOADERS[name])
    passes = []
    for epoch in range(3):
        if told:
            sampler.set_epoch(epoch)
        assert len(loader) == K + 1
        passes.append(train(sampler.bank, loader))
        assert sampler.epoch == epoch
        assert sorted(flat(passes[-1])) == list(range(N))
    assert passes == by_hand(told, 3, drop_last=False)
    assert sampler.plan is not None


@pytest.mark.parametrize("name", LOADERS)
def test_a_pass_broken_off_is_followed_by_the_next_epoch(name: str) -> None:
    sampler = new(shuffled_epochs=5)
    loader = DataLoader(data_set(N), batch_sampler=sampler, **LOADERS[name])
    expected = by_hand(False, 3, shuffled_epochs=5)
    assert train(sampler.bank, loader, 3) == expected[0][:3]
    assert train(sampler.bank, loader) == expected[1]
    assert train(sampler.bank, loader) == expected[2]


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("position", [0, 3, 7])
def test_plain_loader_goes_on_from_a_position(name: str, position: int) -> None:
    """With workers a plain loader has drawn more than was trained on; so the loop says how many batches are done."""
    sampler = new(shuffled_epochs=0)
    record(sampler.bank, torch.arange(N))
    loader = iter(DataLoader(data_set(N), batch_sampler=sampler, **LOADERS[name]))
    whole = [next(loader)[0].tolist() for _ in range(position)]
    state = sampler.state_dict(position=position)
    rest = [index.tolist() for index, _ in loader]
    assert len(whole) + len(rest) == K

    again = new(shuffled_epochs=0)
    again.load_state_dict(state)
    again.bank.load_state_dict(sampler.bank.state_dict())
    other = DataLoader(data_set(N), batch_sampler=again, **LOADERS[name])
    assert train(again.bank, other) == rest
    assert len(train(again.bank, other)) == K
    assert again.epoch == 1


SAYS_TORCHDATA = "ignore:'set_vital' is deprecated"  # torchdata 0.11 with torch 2.13
STATEFUL = {name: options for name, options in LOADERS.items() if name != "far ahead"}


@pytest.mark.filterwarnings(SAYS_TORCHDATA)
@pytest.mark.parametrize("told", [True, False], ids=["set_epoch", "by itself"])
@pytest.mark.parametrize("stop", ["0", "3", "all drawn", "over"])
@pytest.mark.parametrize("name", STATEFUL)
def test_stateful_loader_goes_on(name: str, stop: str, told: bool, tmp_path: Path) -> None:
    """Killed in its second epoch: before it, in its middle, after its last batch, after its end."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is an extra: integrations")

    def loader_of(sampler: PlannedBatchSampler) -> Any:
        return stateful.StatefulDataLoader(data_set(N), batch_sampler=sampler, **STATEFUL[name])

    first = new()
    loader = loader_of(first)
    if told:
        first.set_epoch(0)
    train(first.bank, loader)
    if told:
        first.set_epoch(1)
    under_way = iter(loader)
    done = []
    for _ in range({"0": 0, "3": 3}.get(stop, K)):
        index, _ = next(under_way)
        record(first.bank, index)
        done.append(index.tolist())
    if stop == "over":
        assert next(under_way, None) is None
    torch.save({"loader": loader.state_dict(), "bank": first.bank.state_dict()}, tmp_path / "state.pt")

    expected = by_hand(told, 4)
    assert done == expected[1][: len(done)]
    state = torch.load(tmp_path / "state.pt", weights_only=False)
    second = new()
    second.bank.load_state_dict(state["bank"])
    again = loader_of(second)
    again.load_state_dict(state["loader"])
    passes = []
    for epoch in range(2 if stop == "over" else 1, 4):
        if told:
            second.set_epoch(epoch)
        passes.append(train(second.bank, again))
    assert passes == ([] if stop == "over" else [expected[1][len(done) :]]) + expected[2:]


@pytest.mark.filterwarnings(SAYS_TORCHDATA)
@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_loader_in_a_later_epoch_of_a_plan_that_lasts(workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is an extra: integrations")
    first = new(replan_every=3)
    loader = stateful.StatefulDataLoader(data_set(N), batch_sampler=first, num_workers=workers)
    for _ in range(2):
        train(first.bank, loader)
    train(first.bank, loader, 4)
    state, bank = loader.state_dict(), first.bank.state_dict()
    second = new(replan_every=3)
    second.bank.load_state_dict(bank)
    again = stateful.StatefulDataLoader(data_set(N), batch_sampler=second, num_workers=workers)
    again.load_state_dict(state)
    expected = by_hand(False, 5, replan_every=3)
    assert [train(second.bank, again) for _ in range(3)] == [expected[2][4:], expected[3], expected[4]]


def test_a_saved_plan_is_the_batch_sampler_of_any_loader(tmp_path: Path) -> None:
    u, v = np.random.default_rng(0).standard_normal((2, 26, 4)).astype(np.float32)
    plan = Cut()(u, v, batch_size=8, drop_last=False)
    plan.save(tmp_path / "plan.npz")
    saved: Any = BatchPlan.load(tmp_path / "plan.npz")  # arrays of indices, where torch's types name lists
    loader = DataLoader(TensorDataset(torch.arange(26)), batch_sampler=saved)
    assert len(loader) == 4
    for _ in range(2):  # the same batches in the same order each epoch
        assert [batch.tolist() for (batch,) in loader] == [members.tolist() for members in plan]
