"""`PlannedLoader`: what the data set yields, in planned batches, resumed from anywhere."""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.sampling._helpers import DIM, Called, flat, pairs
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from batchcut.sampling import EmbeddingBank, PlannedLoader, Sharding
from batchcut.selection import BatchPlan, Cut, Ordered, Shuffle

N, B, K = 43, 5, 8
WORKERS = [0, pytest.param(2, marks=pytest.mark.slow)]


def tensors(n: int = N) -> Dataset[Any]:
    return TensorDataset(*pairs(n), torch.arange(n))


def new(dataset: Any = None, **settings: Any) -> PlannedLoader:
    usual: dict[str, Any] = {"batch_size": B, "seed": 1, "selector": Cut(threads=1)}
    return PlannedLoader(dataset or tensors(), **(usual | settings))


def train(loader: PlannedLoader, limit: int | None = None) -> list[list[int]]:
    """A pass, or the beginning of one; what is recorded depends on how often was recorded before."""
    drawn = []
    for u, _, own in loader:
        assert torch.equal(loader.index, own)
        assert torch.equal(u, pairs(N)[0][own])
        loader.record(*(side[own] for side in pairs(N, seed=loader.bank.clock)))
        drawn.append(own.tolist())
        if len(drawn) == limit:
            break
    return drawn


@pytest.mark.parametrize("workers", WORKERS)
def test_every_sample_once_an_epoch_in_batches_of_the_plan(workers: int) -> None:
    loader = new(num_workers=workers, drop_last=False)
    passes = []
    for epoch in range(loader.epoch, 3):
        assert len(loader) == K + 1
        passes.append(train(loader))
        assert loader.epoch == epoch + 1
    assert [sorted(flat(batches)) for batches in passes] == [list(range(N))] * 3
    assert loader.plan is not None
    planned = {frozenset(row.tolist()) for row in loader.plan}
    assert {frozenset(batch) for batch in passes[2]} == planned
    assert loader.bank.dim == DIM  # learnt from what was recorded


def test_the_parts_by_hand_give_the_same() -> None:
    from torch.utils.data import DataLoader

    from batchcut.sampling import Indexed, PlannedBatchSampler

    loader = new()
    bank = EmbeddingBank(N, DIM)
    sampler = PlannedBatchSampler(bank, batch_size=B, seed=1, selector=Cut(threads=1))
    for _ in range(3):
        drawn = []
        for index, (_, _, own) in DataLoader(Indexed(tensors()), batch_sampler=sampler):
            bank.record(index, *(side[own] for side in pairs(N, seed=bank.clock)))
            drawn.append(own.tolist())
        assert train(loader) == drawn


class Dictionaries(Dataset[dict[str, Any]]):
    """As tokenized texts are: items of different lengths, which need a collate function of their own."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"text": "x" * (index + 1), "number": index}


def padded(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"texts": [item["text"] for item in items], "numbers": torch.tensor([item["number"] for item in items])}


@pytest.mark.parametrize("workers", WORKERS)
def test_dictionaries_and_a_collate_function_of_ones_own(workers: int) -> None:
    loader = new(Dictionaries(), collate_fn=padded, num_workers=workers)
    seen = []
    for batch in loader:
        assert [len(text) - 1 for text in batch["texts"]] == batch["numbers"].tolist() == loader.index.tolist()
        seen += batch["numbers"].tolist()
    assert len(set(seen)) == len(seen) == K * B


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("stop", [(0, 3), (1, 0), (1, 4), (1, K), (2, K)], ids=str)
@pytest.mark.parametrize("told", [True, False], ids=["set_epoch", "by itself"])
def test_goes_on_with_the_same_batches(workers: int, stop: tuple[int, int], told: bool, tmp_path: Path) -> None:
    def epochs(loader: PlannedLoader, until: int = 4) -> Iterator[int]:
        for epoch in range(loader.epoch, until):
            if told:
                loader.set_epoch(epoch)
            yield epoch

    whole = new(num_workers=workers)
    expected = [train(whole) for _ in epochs(whole)]
    first = new(num_workers=workers)
    done = [train(first) for _ in epochs(first, stop[0])]
    if told:
        first.set_epoch(stop[0])
    done += [train(first, stop[1])] if stop[1] else [[]]
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second = new(num_workers=workers)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    rest = [train(second) for _ in epochs(second)]
    assert len(rest) == 4 - stop[0] - (stop[1] == K)  # after its last batch an epoch is over
    assert done == [*expected[: stop[0]], expected[stop[0]][: stop[1]]]
    assert flat(flat(done + rest)) == flat(flat(expected))  # type: ignore[arg-type]


def test_a_state_after_a_pass_is_that_of_the_next_epoch() -> None:
    first, second = new(), new()
    train(first)
    state = copy.deepcopy(first.state_dict())
    second.load_state_dict(state)
    assert second.epoch == 1
    assert train(second) == train(first)


@dataclass(frozen=True, kw_only=True)
class Flaky(Called):
    """`Cut`, once it has failed."""

    failures: list[str]

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        if self.failures:
            raise ArithmeticError(self.failures.pop())
        return Cut(threads=1)(u, v, **arguments)

    def __repr__(self) -> str:
        return "Flaky()"


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("ahead", [0.0, 0.4])
def test_an_epoch_whose_plan_failed_is_the_next_to_be_tried(ahead: float, workers: int) -> None:
    loader = new(selector=Flaky(failures=["no plan today"]), plan_ahead=ahead, num_workers=workers)
    plain = new(selector=Flaky(failures=[]), num_workers=workers)
    first, expected = train(loader), [train(plain) for _ in range(2)]
    loader.state_dict()
    with pytest.raises(ArithmeticError, match=r"^no plan today$"):
        train(loader)
    assert (loader.epoch, len(loader)) == (1, K)
    again = new(selector=Flaky(failures=[]), plan_ahead=ahead, num_workers=workers)
    again.load_state_dict(copy.deepcopy(loader.state_dict()))
    assert again.epoch == 1
    assert [first, train(loader)] == [first, train(again)] == expected
    assert loader.epoch == 2


class Unreadable(Dataset[Any]):
    """A data set whose files are gone, until they are back."""

    gone = False

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> Any:
        if self.gone:
            raise OSError("gone")
        return tensors()[index]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_pass_without_its_first_batch_begins_again_where_it_began(workers: int) -> None:
    data, plain, first = Unreadable(), new(), new()
    expected = [train(plain) for _ in range(2)]
    assert [train(first), train(first, 3)] == [expected[0], expected[1][:3]]
    again = new(data, num_workers=workers)
    again.load_state_dict(copy.deepcopy(first.state_dict()))
    data.gone = True
    with pytest.raises(OSError, match="gone"):
        train(again)
    data.gone = False
    assert again.epoch == 1
    assert train(again) == expected[1][3:]
    assert again.epoch == 2


def test_index_and_record_are_of_the_batch_yielded_last() -> None:
    loader = new()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="there is no batch yet: index and record are of the one"):
            loader.record(torch.ones(B, DIM), torch.ones(B, DIM))
    iterator = iter(loader)
    _, _, own = next(iterator)
    next(iterator)
    with pytest.raises(ValueError, match=r"^u must have shape \(5, 3\), a row of the bank's width for each index"):
        loader.record(torch.ones(B - 1, 3), torch.ones(B, 3))
    loader.record(torch.ones(B, 3), torch.ones(B, 3))
    assert set(loader.bank.seen.nonzero().flatten().tolist()).isdisjoint(own.tolist())


class Towers(nn.Module):
    """Takes the parts of a batch."""

    def forward(self, x: Tensor, y: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        assert not self.training
        return x, y


def test_fill_plans_the_first_epoch_too() -> None:
    told: list[int] = []
    loader = new(shuffled_epochs=0, drop_last=False)
    loader.fill(Towers(), batch_size=20, progress=told.append)
    assert told == [20, 40, 43]
    u, v = pairs(N)
    assert torch.equal(loader.bank.u, u)
    batches = train(loader)
    plan = Cut(threads=1)(u, v, batch_size=B, seed=1, drop_last=False)
    assert {frozenset(row.tolist()) for row in plan} == {frozenset(batch) for batch in batches}


def test_temperature_is_said_once() -> None:
    loader = new(temperature=0.03)
    for _ in range(2):
        train(loader)
    assert loader.plan is not None
    assert loader.plan.temperature == loader.temperature == 0.03
    own = new(temperature=0.03, selector=Cut(threads=1, temperature=0.5))
    for _ in range(2):
        train(own)
    assert own.plan is not None
    assert own.plan.temperature == own.temperature == 0.5
    assert new().temperature == 0.1


@pytest.mark.parametrize("mode", ["whole", "split"])
def test_which_process_this_is_may_be_said_later(mode: Any) -> None:
    early = [new(batch_size=6, sharding=Sharding(rank=rank, world_size=2, mode=mode)) for rank in range(2)]
    late = [new(batch_size=6) for _ in range(2)]
    for rank, loader in enumerate(late):
        loader.share(Sharding(rank=rank, world_size=2, mode=mode))
    drawn = [[own.tolist() for _, _, own in loader] for loader in late]
    assert drawn == [[own.tolist() for _, _, own in loader] for loader in early]
    assert not set(flat(drawn[0])) & set(flat(drawn[1]))


def test_an_epoch_with_nothing_recorded_is_shuffled_with_a_warning() -> None:
    loader = new()
    list(loader)
    with pytest.warns(RuntimeWarning, match=r"nothing was recorded, .* call loader.record\(u, v\)") as told:
        list(loader)
    assert len(told) == 1
    list(loader)  # said once
    assert loader.plan is None


def test_recording_a_part_of_what_was_drawn_is_told() -> None:
    loader = new()
    for step, (u, v, _) in enumerate(loader):
        if step % 2:
            loader.record(u, v)
    with pytest.warns(
        RuntimeWarning, match=r"of 40 samples drawn in the last epoch 20 were recorded: call record"
    ) as told:
        list(loader)
    assert len(told) == 1


def test_shuffled_batches_need_no_record() -> None:
    loader = new(selector=Shuffle())
    for _ in range(3):
        assert len(list(loader)) == K


def test_a_bank_of_ones_own(tmp_path: Path) -> None:
    bank = EmbeddingBank(N, dtype=torch.float16, path=tmp_path / "bank")
    loader = new(bank=bank)
    train(loader)
    assert (bank.dim, bank.u.dtype, int(bank.seen.sum())) == (DIM, torch.float16, K * B)
    assert EmbeddingBank(N, dtype=torch.float16, path=tmp_path / "bank").clock == bank.clock
    with pytest.raises(ValueError, match=f"^bank must be as long as the data set, {N}; got 30$"):
        new(bank=EmbeddingBank(30))
    with pytest.raises(TypeError, match=r"^bank must be an EmbeddingBank; got Tensor$"):
        new(bank=torch.ones(N, DIM))


@pytest.mark.parametrize("name", ["shuffle", "sampler", "batch_sampler"])
def test_options_that_are_the_plans_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be left out: a PlannedLoader plans its batches; got True$"):
        new(**{name: True})


def test_what_is_no_data_set_or_no_option_is_refused() -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter([1])

    with pytest.raises(TypeError, match="dataset must have items by index; for a stream there is StreamPlanner"):
        PlannedLoader(Stream(), batch_size=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        new(nonsense=1)
    with pytest.raises(ValueError, match=r"^batch_size must be at least 2; got 1$"):
        new(batch_size=1)
    with pytest.raises(ValueError, match=r"^state must be of a PlannedLoader, with sampler and bank; got \['bank'\]$"):
        new().load_state_dict({"bank": {}})
    with pytest.raises(TypeError, match=r"^state must be of a PlannedLoader, with sampler and bank; got NoneType$"):
        new().load_state_dict(None)  # type: ignore[arg-type]


def test_groups_and_other_settings_reach_the_sampler() -> None:
    groups = np.arange(N) // 2
    loader = new(groups=groups, replan_every=2, shuffled_epochs=3, average_views=True, multiple_of=2)
    sampler = loader.sampler
    assert (sampler.replan_every, sampler.shuffled_epochs, sampler.average_views) == (2, 3, True)
    assert len(loader) == len(sampler) == K
    assert loader.batch_sampler is sampler
    assert loader.batch_size == B
    assert repr(loader).startswith("PlannedLoader(43 samples, batch_size=5, EmbeddingBank(43, 0, ")


@pytest.mark.parametrize("at", [0, 3, K, "after"], ids=str)
def test_a_state_takes_a_loader_back_that_has_gone_further(at: Any) -> None:
    first, again = new(), new()
    train(first)
    train(first, at or None) if at != "after" else train(first)
    state = copy.deepcopy(first.state_dict())
    for _ in range(3):
        train(again)
    again.load_state_dict(state)
    fresh = new()
    fresh.load_state_dict(state)
    assert again.epoch == fresh.epoch
    assert [train(again) for _ in range(2)] == [train(fresh) for _ in range(2)]


def test_a_state_of_before_the_first_record_takes_a_loader_back_to_its_start() -> None:
    loader = new()
    state = copy.deepcopy(loader.state_dict())
    expected = [train(loader) for _ in range(2)]
    loader.load_state_dict(state)
    assert loader.bank.coverage == 0
    assert [train(loader) for _ in range(2)] == expected


def test_a_state_that_is_refused_changes_nothing() -> None:
    other, loader = new(seed=2), new()
    train(other)
    train(loader, 3)
    before = copy.deepcopy(loader.state_dict())
    with pytest.raises(ValueError, match="must be of a sampler with seed = 1; got 2"):
        loader.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="must have shape"):
        loader.load_state_dict(before | {"bank": EmbeddingBank(30, DIM).state_dict()})
    after = loader.state_dict()
    assert after["sampler"] == before["sampler"]
    torch.testing.assert_close(after["bank"], before["bank"], rtol=0, atol=0)


def test_a_framework_that_tells_the_sampler_the_epoch_is_heard() -> None:
    loader = new()
    train(loader)
    train(loader, 3)
    loader.sampler.set_epoch(2)
    assert loader.epoch == 2
    state = loader.state_dict()["sampler"]
    assert (state["epoch"], state["position"], state["over"]) == (2, 0, False)
    assert len(train(loader)) == K
    assert loader.epoch == 3


def test_which_process_this_is_said_after_a_state_keeps_the_place() -> None:
    first, second = new(), new()
    train(first)
    train(first, 3)
    state = copy.deepcopy(first.state_dict())
    second.load_state_dict(state)
    second.share(Sharding())
    assert (second.epoch, second.sampler.start) == (1, 3)
    expected = new()
    expected.load_state_dict(state)
    assert train(second) == train(expected)
    with pytest.raises(ValueError, match="must be of a sampler with world_size = 2; got 1"):
        second.share(Sharding(rank=0, world_size=2))


@pytest.mark.parametrize("workers", WORKERS)
def test_a_pass_that_is_left_is_no_cause_for_alarm(workers: int) -> None:
    """Workers have read to its end."""
    loader = new(num_workers=workers)
    train(loader, 4)
    with warnings.catch_warnings(record=True) as told:
        assert [len(train(loader)) for _ in range(2)] == [K, K]
    assert told == []


def test_recording_that_stops_is_told() -> None:
    loader = new()
    for _ in range(2):
        train(loader)
    list(loader)
    with pytest.warns(RuntimeWarning, match="of 40 samples drawn in the last epoch 0 were recorded"):
        list(loader)


def test_the_length_between_two_passes_is_that_of_the_next() -> None:
    loader = new(selector=Ordered(k=2))
    for _ in range(3):
        length = len(loader)
        assert len(train(loader)) == length


def test_batches_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^in_order must be True: a state says how many batches are done"):
        new(in_order=False, num_workers=2)


def test_a_record_that_is_refused_fixes_no_width() -> None:
    loader = new()
    next(iter(loader))
    with pytest.raises(ValueError, match=r"^v must have shape \(5, 8\)"):
        loader.record(torch.ones(B, 8), torch.ones(B, 4))
    loader.record(torch.ones(B, 4), torch.ones(B, 4))
    assert loader.bank.dim == 4


def test_a_state_does_not_ask_who_said_the_temperature() -> None:
    first, second = new(selector=Cut(temperature=0.2, threads=2)), new(temperature=0.2)
    train(first)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert train(second) == train(first)
