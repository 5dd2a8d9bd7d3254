"""What holds for every selector, called in the same way, and for one of a user's own."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import batchcut as bc
from batchcut.selection import Request, Selector, check_selector

MakePairs = Callable[..., tuple[Any, Any]]

PARTITIONS: list[Selector] = [
    bc.Shuffle(),
    bc.Shuffle(replacement="fixed"),
    bc.Shuffle(margin=0.1),
    bc.Cut(),
    bc.Cut(margin=0.0),
    bc.Cut(pool=2),
    bc.Spectral(),
    bc.Spectral(variant="authors", pool=3, margin=0.2),
]
OTHERS: list[Selector] = [
    bc.Shuffle(replacement="with"),
    bc.Ordered(k=2, q=1),
    bc.Ordered(k=2, q=1, replacement=True),
]


@pytest.mark.filterwarnings("ignore:.* of the groups have more members")
@settings(max_examples=60)
@given(st.sampled_from(PARTITIONS), st.data())
def test_partitions(make_pairs: MakePairs, selector: Selector, data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 8))
    count = data.draw(st.integers(size, 50))
    dtype = data.draw(st.sampled_from([np.float16, np.float32, np.float64]))
    u, v = make_pairs(count, data.draw(st.integers(1, 5)), copies=data.draw(st.sampled_from([0, 3, count])))
    label = st.integers(0, 6)
    labels = data.draw(st.sampled_from([label, st.lists(label, max_size=3)]))
    groups = data.draw(st.none() | st.lists(labels, min_size=count, max_size=count))
    drop_last = data.draw(st.booleans())
    request: dict[str, Any] = {
        "batch_size": size,
        "groups": groups,
        "drop_last": drop_last,
        "epoch": data.draw(st.integers(0, 3)),
    }
    plan = selector(u.astype(dtype), v.astype(dtype), **request)
    used = plan.batches[plan.batches >= 0]
    np.testing.assert_array_equal(np.sort(np.concatenate([used, plan.left_over])), np.arange(count))
    assert len(plan.left_over) == (count % size if drop_last else 0)
    assert [len(batch) for batch in plan][:-1] == [size] * (len(plan) - 1)
    assert plan == selector(u.astype(dtype), v.astype(dtype), **request)


@pytest.mark.parametrize("selector", PARTITIONS + OTHERS)
def test_plans_depend_on_seed_and_epoch(make_pairs: MakePairs, selector: Selector) -> None:
    u, v = make_pairs(64, 3, clusters=3)
    plan = selector(u, v, batch_size=4, seed=1, epoch=1)
    assert plan == selector(u, v, batch_size=4, seed=1, epoch=1)
    assert plan.batches.tolist() != selector(u, v, batch_size=4, seed=2, epoch=1).batches.tolist()
    again = selector(u, v, batch_size=4, seed=1, epoch=2).batches.tolist()
    assert (plan.batches.tolist() == again) == (getattr(selector, "replacement", None) == "fixed")


@pytest.mark.parametrize("selector", PARTITIONS + OTHERS)
@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        ({"batch_size": 1}, ValueError, "batch_size must be at least 2; got 1"),
        ({"batch_size": 17}, ValueError, "batch_size must be at most the number of samples, 16; got 17"),
        ({"batch_size": 4.0}, TypeError, "batch_size must be an integer; got float"),
        ({"seed": -1}, ValueError, "seed must be at least 0; got -1"),
        ({"epoch": "one"}, TypeError, "epoch must be an integer; got str"),
        ({"drop_last": "no"}, TypeError, "drop_last must be True or False; got str"),
        ({"groups": [1, 2]}, ValueError, r"groups must hold one entry for each of the 16 samples; got shape \(2,\)"),
        ({"progress": 3}, TypeError, "progress must be None or a function of one number; got int"),
    ],
)
def test_bad_requests_are_refused(
    make_pairs: MakePairs, selector: Any, request_: Any, error: type[Exception], text: str
) -> None:
    u, v = make_pairs(16)
    with pytest.raises(error, match=text):
        selector(u, v, **{"batch_size": 4, **request_})


@pytest.mark.parametrize("selector", PARTITIONS)
def test_one_batch_of_all(make_pairs: MakePairs, selector: Selector) -> None:
    u, v = make_pairs(6)
    plan = selector(u, v, batch_size=6)
    assert sorted(plan.batches[0].tolist()) == list(range(6))


@pytest.mark.parametrize("selector", PARTITIONS + OTHERS)
def test_progress_ends_at_one(make_pairs: MakePairs, selector: Selector) -> None:
    u, v = make_pairs(32)
    told: list[float] = []
    selector(u, v, batch_size=4, progress=told.append)
    assert told[-1] == 1
    assert all(0 <= share <= 1 for share in told)


COUNTED: list[Selector] = [
    bc.Cut(threads=1),
    bc.Cut(pool=2, threads=1),
    bc.Spectral(),
    bc.Shuffle(),
    bc.Shuffle(replacement="fixed"),
    bc.Shuffle(replacement="with"),
    bc.Shuffle(replacement="with", per_step=3),
    bc.Shuffle(replacement="with", steps=5),
    bc.Ordered(k=3),
    bc.Ordered(k=4, q=2),
    bc.Ordered(k=4, q=2, replacement=True),
    bc.Ordered(k=4, q=3, replacement=True, steps=2),
    bc.Ordered(exact=True, q=7),
]


@pytest.mark.parametrize("selector", COUNTED, ids=repr)
@pytest.mark.parametrize(("n", "size"), [(16, 4), (18, 4), (17, 3)])
def test_batch_count_is_that_of_the_plan(make_pairs: MakePairs, selector: Selector, n: int, size: int) -> None:
    plan = selector(*make_pairs(n, 4), batch_size=size, drop_last=False)
    assert selector.batch_count(n, size) == len(plan)
    assert selector.covers == (not plan.repeats and not len(plan.left_over))


def test_batch_count_of_too_few_candidates() -> None:
    assert bc.Ordered(k=5).batch_count(16, 4) == 0


def test_what_is_called_as_a_selector_is_one() -> None:
    assert isinstance(bc.Cut(), Selector)
    assert not isinstance("Cut", Selector)
    assert check_selector(bc.Cut()) == bc.Cut()
    with pytest.raises(ValueError, match=r"^selector must be made first, as by Cut\(\); got the class Cut$"):
        check_selector(bc.Cut)
    with pytest.raises(TypeError, match=r"^selector must be a Selector; got str$"):
        check_selector("Cut")


@pytest.mark.parametrize("kind", [bc.Shuffle, bc.Cut, bc.Spectral, lambda **more: bc.Ordered(k=2, **more)])
def test_temperature_is_that_of_the_record_or_else_of_the_call(make_pairs: MakePairs, kind: Any) -> None:
    u, v = make_pairs(32, clusters=3)
    own, called, neither = (
        kind(temperature=0.3)(u, v, batch_size=4, temperature=0.7),
        kind()(u, v, batch_size=4, temperature=0.3),
        kind()(u, v, batch_size=4),
    )
    assert own == called
    assert (own.temperature, own.settings["temperature"]) == (0.3, 0.3)
    assert (neither.temperature, neither.settings["temperature"]) == (0.1, 0.1)
    assert neither == kind(temperature=0.1)(u, v, batch_size=4)
    with pytest.raises(ValueError, match="temperature must be finite and above 0; got 0"):
        kind()(u, v, batch_size=4, temperature=0)


@dataclass(frozen=True, kw_only=True)
class AlongOneAxis(Selector):
    """Neighbours along one axis share a batch."""

    axis: int = 0
    weights: tuple[float, ...] = (1.0, 0.5)

    def choose(self, request: Request) -> NDArray[np.int64]:
        order = np.argsort(request.pairs.u[request.used, self.axis], kind="stable")
        return request.parted(request.deal(request.used[order]))


def test_a_selector_of_ones_own_works_in_a_call(make_pairs: MakePairs, tmp_path: Path) -> None:
    u, v = make_pairs(22)
    plan = AlongOneAxis(axis=1)(u, v, batch_size=4, epoch=1, temperature=0.5)
    for row, after in pairwise(plan.batches):
        assert u[row, 1].max() <= u[after, 1].min() + 1e-6
    assert (plan.method, plan.temperature, len(plan.left_over)) == ("AlongOneAxis", 0.5, 2)
    assert dict(plan.settings) == {"axis": 1, "weights": "(1.0, 0.5)", "temperature": 0.5}
    assert plan.summary().startswith("AlongOneAxis(axis=1, weights='(1.0, 0.5)', temperature=0.5)\n")
    plan.save(tmp_path / "plan.npz")
    assert bc.BatchPlan.load(tmp_path / "plan.npz") == plan
    with pytest.warns(RuntimeWarning, match="2 of the groups have more members than there are batches, 6"):
        crowded = AlongOneAxis()(u, v, batch_size=4, groups=[0, 1] * 11, drop_last=False)
    assert crowded.group_pairs == 10


def test_a_selector_of_ones_own_works_in_a_sampler(make_pairs: MakePairs) -> None:
    u, v = (torch.tensor(side, dtype=torch.float32) for side in make_pairs(22))
    bank = bc.EmbeddingBank(22, 8)
    bank.record(torch.arange(22), u, v)
    sampler = bc.PlannedBatchSampler(bank, batch_size=4, selector=AlongOneAxis())
    for _ in range(3):
        batches = list(sampler)
        assert len(batches) == len(sampler) == 5
        assert len({sample for batch in batches for sample in batch}) == 20
    assert sampler.plan is not None
    assert sampler.plan.method == "AlongOneAxis"


@dataclass(frozen=True)
class Fixed(Selector):
    """Gives what it was told."""

    batches: Any
    partition: bool = True

    @property
    def covers(self) -> bool:
        return self.partition

    def choose(self, request: Request) -> Any:
        return self.batches


def test_settings_of_any_kind_do_not_stop_a_plan(make_pairs: MakePairs, tmp_path: Path) -> None:
    plan = Fixed(np.array([[3, 1], [0, 2]]))(*make_pairs(4), batch_size=2)
    assert re.fullmatch(r"int64 \(2, 2\) [0-9a-f]{8}", str(plan.settings["batches"]))
    plan.save(tmp_path / "plan.npz")
    assert bc.BatchPlan.load(tmp_path / "plan.npz") == plan


@pytest.mark.parametrize(
    ("batches", "text"),
    [
        (np.arange(4), r"batches must be integers of shape \(K, B\); got int64 of shape \(4,\)"),
        (np.ones((2, 2)), r"batches must be integers of shape \(K, B\); got float64 of shape \(2, 2\)"),
        ([[0, 1], [2, 4]], "batches must hold indices below 4; got 4"),
        ([[0, 1], [-1, 2], [3, -1]], "batches must be full, but for -1 at the end of the last row; got -1 elsewhere"),
        ([[0, 1]], r"Fixed\.choose must choose each of the 4 samples in use, unless covers is False; got 2"),
        ([[0, 1], [1, 2], [2, 3]], "batches must hold each sample once where repeats=False; got sample 1"),
    ],
)
def test_batches_that_cannot_be_are_refused(make_pairs: MakePairs, batches: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        Fixed(batches)(*make_pairs(4), batch_size=2)


def test_a_selector_that_does_not_cover_may_repeat_and_leave_out(make_pairs: MakePairs) -> None:
    plan = Fixed([[0, 1], [1, 2]], partition=False)(*make_pairs(4), batch_size=2)
    assert plan.repeats
    assert plan.left_over.tolist() == [3]
    assert not Fixed([[0, 1]], partition=False)(*make_pairs(4), batch_size=2).repeats
