"""Hard batches out of a stream: every sample once, batches of every make, pools that do not fill."""

import itertools
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests._selectors import ByNumber
from tests.sampling._helpers import DIM, Spy, flat, pairs
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from batchcut.sampling import StreamPlanner
from batchcut.selection import Cut, Ordered, Shuffle

N = 100


def embed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x[:, 1:], y


def numbered(n: int = N) -> tuple[Tensor, Tensor]:
    """Pairs whose first column says which sample they are."""
    u, v = pairs(n)
    return torch.cat([torch.arange(n)[:, None], u], dim=1), v


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """A stream that workers share, as WebDataset does with shards."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        yield from zip(*(side[first::step] for side in numbered()), strict=True)


def samples_of(batch: Any) -> list[int]:
    return [int(i) for i in batch[0][:, 0]]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("k", [1, 3, 4, 10, 50])
def test_every_sample_once_out_of_a_real_loader(workers: int, k: int) -> None:
    loader = DataLoader(Stream(), batch_size=8, num_workers=workers)
    planner = StreamPlanner(loader, embed, pool=k)
    batches = list(planner)
    assert sorted(i for batch in batches for i in samples_of(batch)) == list(range(N))
    assert max(len(samples_of(batch)) for batch in batches) == 8
    plain = {int(x[0]): (x, y) for x, y in Stream()}
    for batch in batches:  # the parts of a sample stay together
        for x, y in zip(*batch, strict=True):
            assert torch.equal(x, plain[int(x[0])][0])
            assert torch.equal(y, plain[int(x[0])][1])


def test_k_batches_in_k_batches_out_and_samples_keep_to_their_pool() -> None:
    loader = DataLoader(Stream(), batch_size=10)
    seen: list[int] = []

    def counted() -> Iterator[Any]:
        for batch in loader:
            seen.append(1)
            yield batch

    drawn = []
    for batch in StreamPlanner(counted(), embed, pool=5):
        drawn.append(samples_of(batch))
        assert len(seen) == 5 * -(-len(drawn) // 5)  # a pool is taken when the one before is used up
    assert len(drawn) == 10
    assert sorted(flat(drawn[:5])) == list(range(50))


def test_batches_are_those_that_the_selector_plans() -> None:
    loader = DataLoader(Stream(), batch_size=10)
    planner = StreamPlanner(loader, embed, pool=5, seed=3)
    batches = [samples_of(batch) for batch in planner]
    u, v = pairs(N)
    for pool in (0, 1):
        rows = slice(50 * pool, 50 * pool + 50)
        plan = Cut()(u[rows], v[rows], batch_size=10, seed=3, epoch=pool)
        assert batches[5 * pool : 5 * pool + 5] == (plan.batches + 50 * pool).tolist()
        assert plan.mean_loss > Shuffle()(u[rows], v[rows], batch_size=10).mean_loss
    assert planner.plan is not None
    assert (planner.plan.epoch, planner.plan.count) == (0, 50)


def test_a_short_batch_first_in_the_pool_makes_no_small_batches() -> None:
    """With workers the short last batch of one may stand before the full ones of another."""
    x, y = numbered(22)
    stream = [(x[:2], y[:2]), (x[2:12], y[2:12]), (x[12:], y[12:])]
    assert [len(samples_of(batch)) for batch in StreamPlanner(stream, embed)] == [10, 10, 2]


@pytest.mark.parametrize(
    ("came", "planned"),
    [
        ([10, 6, 10, 5], [10, 10, 6, 5]),  # as from two workers; planned in tens, one would be left
        ([3, 1, 3], [3, 2, 2]),
        ([2, 2, 1], [2, 2, 1]),
        ([2, 1], [2, 1]),
        ([1, 1], [1, 1]),
        ([4, 0], [4]),
    ],
)
def test_no_sample_is_left_without_a_negative(came: list[int], planned: list[int]) -> None:
    stream = list(zip(*(side.split(came) for side in numbered(sum(came))), strict=True))
    batches = [samples_of(batch) for batch in StreamPlanner(stream, embed)]
    assert [len(batch) for batch in batches] == planned
    assert sorted(flat(batches)) == list(range(sum(came)))


def test_a_pool_is_held_once() -> None:
    batches = [tuple(side.split(10)[place] for side in numbered(30)) for place in range(3)]
    first = weakref.ref(batches[0][0])
    planned = iter(StreamPlanner((batches.pop(0) for _ in range(3)), embed, pool=3))
    next(planned)
    assert first() is None


def test_epochs_differ_and_are_repeatable() -> None:
    loader = DataLoader(Stream(), batch_size=10)
    shuffle = Shuffle()

    def passes(*epochs: int) -> list[list[list[int]]]:
        planner, drawn = StreamPlanner(loader, embed, pool=5, selector=shuffle), []
        for epoch in epochs:
            planner.set_epoch(epoch)
            drawn.append([samples_of(batch) for batch in planner])
        return drawn

    planner = StreamPlanner(loader, embed, pool=5, selector=shuffle)
    free = [[samples_of(batch) for batch in planner] for _ in range(3)]
    assert free == passes(0, 1, 2)
    assert passes(1, 1, 0) == [free[1], free[1], free[0]]
    assert free[0] != free[1]
    assert [sorted(b) for b in free[0][:5]] != [[i - 50 for i in sorted(b)] for b in free[0][5:]]  # pools differ too


def test_lists_of_strings_and_dictionaries() -> None:
    words = [f"{i:02}" for i in range(30)]
    u, v = pairs(30)

    def look_up(texts: list[str]) -> tuple[Tensor, Tensor]:
        rows = [int(text) for text in texts]
        return u[rows], v[rows]

    stream = [words[i : i + 5] for i in range(0, 30, 5)]
    batches = list(StreamPlanner(stream, look_up, pool=3))
    assert [type(batch) for batch in batches] == [list] * 6
    assert sorted(itertools.chain.from_iterable(batches)) == words

    dictionaries = [{"text": batch, "u": u[int(batch[0]) : int(batch[0]) + 5]} for batch in stream]
    found = list(StreamPlanner(dictionaries, lambda batch: look_up(batch["text"]), pool=3))
    assert [batch["text"] for batch in found] == batches
    for batch in found:
        assert torch.equal(batch["u"], u[[int(text) for text in batch["text"]]])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(DIM)
        self.modes: list[tuple[bool, bool]] = []

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        self.modes.append((self.training, torch.is_grad_enabled()))
        return self.norm(x[:, 1:]), self.norm(y)


def test_a_model_embeds_in_evaluation_mode_and_trains_between() -> None:
    model = Model()
    for x, y in StreamPlanner(DataLoader(Stream(), batch_size=10), model, pool=5):
        model(x, y)
    assert model.modes == ([(False, False)] * 5 + [(True, True)] * 5) * 2


def test_a_pool_of_a_diverged_model_goes_out_as_it_came() -> None:
    calls: list[Any] = []
    stream = list(DataLoader(Stream(), batch_size=10))

    def diverges(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        bad = 0 if 20 <= int(x[0, 0]) < 30 or int(x[0, 0]) >= 60 else 1
        return x[:, 1:] / bad, y

    planner = StreamPlanner(stream, diverges, pool=5, selector=Spy(calls=calls))
    with pytest.warns(
        RuntimeWarning, match=r"embeddings of a pool were NaN, infinite or zero; it goes out as it came \(s"
    ):
        batches = [samples_of(batch) for batch in planner]
    assert batches == [samples_of(batch) for batch in stream]
    assert not calls
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(planner)


def test_bad_input() -> None:
    stream = list(DataLoader(Stream(), batch_size=10))
    with pytest.raises(ValueError, match=r"^pool must be at least 1; got 0$"):
        StreamPlanner(stream, embed, pool=0)
    with pytest.raises(ValueError, match=r"^seed must be at least 0; got -1$"):
        StreamPlanner(stream, embed, seed=-1)
    with pytest.raises(ValueError, match=r"^epoch must be at least 0; got -1$"):
        StreamPlanner(stream, embed).set_epoch(-1)
    with pytest.raises(ValueError, match=r"^embed must give a row for each of the 10 samples; got \(9, 6\)$"):
        list(StreamPlanner(stream, lambda x, y: (x[1:, 1:], y[1:])))
    with pytest.raises(TypeError, match=r"^embed must give a pair of tensors \(u, v\); got Tensor$"):
        list(StreamPlanner(stream, lambda x, y: y))


def test_a_selector_of_ones_own() -> None:
    """Of samples without numbers there are the places in a pool to know them by."""
    x, y = numbered()
    batches = [(x[start : start + 10], y[start : start + 10]) for start in range(0, N, 10)]
    found = list(StreamPlanner(batches, embed, pool=5, selector=ByNumber(seed=1)))
    assert sorted(i for batch in found for i in samples_of(batch)) == list(range(N))
    table = np.random.default_rng(1).permutation(50)
    assert all(np.ptp(table[np.array(samples_of(batch)) % 50]) == 9 for batch in found)
    with pytest.raises(ValueError, match=r"^selector must be made first, as by ByNumber\(\); got the class ByNumber$"):
        StreamPlanner(batches, embed, selector=ByNumber)  # type: ignore[arg-type]


def test_groups_are_kept_apart_in_each_pool() -> None:
    labels = [[f"a{i % 13}", f"b{i % 7}"] for i in range(N)]

    def groups_of(batch: Any) -> list[list[str]]:
        return [labels[i] for i in samples_of(batch)]

    planner = StreamPlanner(DataLoader(Stream(), batch_size=4), embed, pool=25, groups=groups_of)
    for batch in planner:
        held = [label for labels in groups_of(batch) for label in labels]
        assert len(set(held)) == len(held)
    assert planner.plan is not None
    assert planner.plan.group_pairs == 0


def test_groups_of_a_stream_are_asked_for_by_batch() -> None:
    with pytest.raises(TypeError, match="groups must be None or a function of a batch; got list"):
        StreamPlanner([], embed, groups=[1, 2])  # type: ignore[arg-type]


def restless() -> Any:
    """Embeddings that change with each call, as those of a model that trains do."""
    calls = itertools.count()

    def embed_later(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        random = torch.Generator().manual_seed(next(calls))
        return x[:, 1:] + torch.randn(x[:, 1:].shape, generator=random), y

    return embed_later


@pytest.mark.parametrize("given_before", [0, 1, 4, 5, 7, 10])
def test_a_state_goes_on_with_the_same_pool(given_before: int) -> None:
    loader = DataLoader(Stream(), batch_size=10)
    planner = StreamPlanner(loader, restless(), pool=5)
    batches = iter(planner)
    before = [samples_of(next(batches)) for _ in range(given_before)]
    state = planner.state_dict()
    pool_ends = -(-given_before // 5) * 5
    same = [samples_of(next(batches)) for _ in range(given_before, pool_ends)]

    asked: list[int] = []
    spied = restless()
    for skip in (True, False):
        again = StreamPlanner(loader, lambda x, y: (asked.append(len(x)), spied(x, y))[1], pool=5)  # type: ignore[func-returns-value]
        again.load_state_dict(state, skip=skip)
        drawn = [samples_of(batch) for batch in again]
        rest = drawn if skip else drawn[given_before:]
        assert rest[: pool_ends - given_before] == same
        assert sorted(flat(before + rest)) == list(range(N))
        assert len(asked) == N // 10 - pool_ends  # of what was planned before, nothing is embedded again
        asked.clear()


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("given_before", [0, 1, 4, 5, 7, 10])
def test_a_state_is_not_forgotten_before_there_is_a_newer_one(given_before: int, skip: bool) -> None:
    loader = DataLoader(Stream(), batch_size=10)
    planner = StreamPlanner(loader, embed, pool=5)
    batches = iter(planner)
    for _ in range(given_before):
        next(batches)
    state = planner.state_dict()
    again = StreamPlanner(loader, embed, pool=5)
    again.load_state_dict(state, skip=skip)
    assert again.state_dict() == state
    going_on = iter(again)
    assert again.state_dict() == state
    for _ in range(0 if skip else given_before):
        next(going_on)
        assert again.state_dict() == state
    for _ in range(given_before, 10):
        next(going_on)
        next(batches)
        assert again.state_dict() == planner.state_dict()
    assert list(going_on) == []
    again.set_epoch(np.int64(1))  # type: ignore[arg-type]
    assert again.state_dict() == {"epoch": 1, "pools": 0, "rows": None, "given": 0}
    assert type(again.state_dict()["epoch"]) is int  # as it is written into JSON


def test_a_state_is_of_one_epoch() -> None:
    planner = StreamPlanner(DataLoader(Stream(), batch_size=10), embed, pool=5)
    next(iter(planner))
    again = StreamPlanner(DataLoader(Stream(), batch_size=10), embed, pool=5)
    again.load_state_dict(planner.state_dict())
    again.set_epoch(1)
    assert len(list(again)) == 10


def test_after_a_pass_from_a_state_comes_the_next_epoch() -> None:
    planner = StreamPlanner(DataLoader(Stream(), batch_size=10), embed, pool=5)
    planner.load_state_dict(planner.state_dict() | {"epoch": 3})
    for epoch in (3, 4):
        assert len(list(planner)) == 10
        assert planner.epoch == epoch


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        (3, TypeError, "state must be of a StreamPlanner; got int"),
        ({"epoch": 0}, ValueError, "state must be of a StreamPlanner; got no given, pools, rows"),
        (
            {"epoch": 0, "pools": -1, "rows": None, "given": 0},
            ValueError,
            r"state\['pools'\] must be at least 0; got -1",
        ),
        ({"epoch": 0, "pools": 1, "rows": "no", "given": 0}, TypeError, r"state\['rows'\] must be None or a list of l"),
        ({"epoch": 0, "pools": 1, "rows": [[0, 0]], "given": 0}, ValueError, r"state\['rows'\] must hold each place"),
    ],
)
def test_states_that_do_not_fit_are_refused(state: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        StreamPlanner([], embed).load_state_dict(state)


def test_another_stream_than_that_of_the_state_is_refused() -> None:
    planner = StreamPlanner([], embed)
    planner.load_state_dict({"epoch": 0, "pools": 1, "rows": [[0, 1]], "given": 0})
    planner.stream = [numbered(3)]
    with pytest.raises(ValueError, match="stream must have as many samples in pool 0 as before, 2; got 3"):
        list(planner)


def test_a_state_needs_a_selector_that_takes_each_sample() -> None:
    with pytest.raises(ValueError, match="selector must be one that takes each sample once, to keep a state; got Ord"):
        StreamPlanner([], embed, selector=Ordered(k=2)).state_dict()
