"""What holds for every selector, called in the same way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchcut as bc
from batchcut.selection import Selector

MakePairs = Callable[..., tuple[Any, Any]]

PARTITIONS: list[Selector] = [
    bc.Shuffle(),
    bc.Shuffle(replacement="fixed"),
    bc.Shuffle(margin=0.1),
    bc.Cut(),
    bc.Cut(margin=0.0),
    bc.Cut(pool=2, partial_pool=True),
    bc.Spectral(),
    bc.Spectral(variant="authors", pool=3, partial_pool=True, margin=0.2),
]
OTHERS: list[Selector] = [
    bc.Shuffle(replacement="with"),
    bc.Ordered(k=2, q=1),
    bc.Ordered(k=2, q=1, replacement=True),
]


@settings(max_examples=60)
@given(st.sampled_from(PARTITIONS), st.data())
def test_partitions(make_pairs: MakePairs, selector: Selector, data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 8))
    count = data.draw(st.integers(size, 50))
    dtype = data.draw(st.sampled_from([np.float16, np.float32, np.float64]))
    u, v = make_pairs(count, data.draw(st.integers(1, 5)), copies=data.draw(st.sampled_from([0, 3, count])))
    groups = data.draw(st.none() | st.lists(st.integers(0, 6), min_size=count, max_size=count))
    leftover = data.draw(st.sampled_from(["rotate", "short"]))
    request: dict[str, Any] = {
        "batch_size": size,
        "groups": groups,
        "leftover": leftover,
        "epoch": data.draw(st.integers(0, 3)),
    }
    plan = selector(u.astype(dtype), v.astype(dtype), **request)
    used = plan.batches[plan.batches >= 0]
    np.testing.assert_array_equal(np.sort(np.concatenate([used, plan.left_over])), np.arange(count))
    assert len(plan.left_over) == (count % size if leftover == "rotate" else 0)
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
        ({"leftover": "drop"}, ValueError, 'leftover must be "rotate" or "short"; got \'drop\''),
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
