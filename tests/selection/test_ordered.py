from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import batchcut as bc
from batchcut.selection._ordered import largest

MakePairs = Callable[..., tuple[Any, Any]]


def loss_of(u: Any, v: Any, batch: Any, tau: float) -> float:
    scores = u[list(batch)] @ v[list(batch)].T / tau
    rows, columns = np.logaddexp.reduce(scores, axis=1), np.logaddexp.reduce(scores, axis=0)
    return float((rows + columns - 2 * np.diag(scores)).mean())


def test_exact_takes_the_largest_of_all(make_pairs: MakePairs) -> None:
    u, v = make_pairs(9, 3)
    plan = bc.Ordered(exact=True, q=5, temperature=0.3)(u, v, batch_size=3)
    by_loss = sorted(combinations(range(9), 3), key=lambda batch: -loss_of(u, v, batch, 0.3))
    assert [tuple(batch) for batch in plan.batches.tolist()] == by_loss[:5]
    assert plan.repeats


def test_without_replacement_keeps_q_of_each_k(make_pairs: MakePairs) -> None:
    u, v = make_pairs(70)
    plan = bc.Ordered(k=5, q=2)(u, v, batch_size=5, seed=4)
    candidates = bc.Shuffle()(u, v, batch_size=5, seed=4)
    assert len(plan) == 4
    for step in range(2):
        kept = plan.losses[2 * step : 2 * step + 2]
        np.testing.assert_allclose(kept, np.sort(candidates.losses[5 * step : 5 * step + 5])[:-3:-1])
    assert len(plan.left_over) == 50


def test_a_short_batch_that_is_kept_stands_last(make_pairs: MakePairs) -> None:
    u, v = make_pairs(11)
    plan = bc.Ordered(k=3, q=3)(u, v, batch_size=4, drop_last=False)
    assert [len(batch) for batch in plan] == [4, 4, 3]


def test_with_replacement_keeps_the_largest_of_each_draw(make_pairs: MakePairs) -> None:
    u, v = make_pairs(40)
    few = bc.Ordered(k=40, q=4, replacement=True, steps=6)(u, v, batch_size=4)
    random = bc.Shuffle(replacement="with", steps=6, per_step=40)(u, v, batch_size=4)
    assert len(few) == 24
    for step in range(6):
        drawn = random.losses[40 * step : 40 * step + 40]
        np.testing.assert_allclose(few.losses[4 * step : 4 * step + 4], np.sort(drawn)[:-5:-1])


def test_default_steps(make_pairs: MakePairs) -> None:
    u, v = make_pairs(40)
    assert len(bc.Ordered(k=5, q=2, replacement=True)(u, v, batch_size=4)) == 4


def test_ties_go_to_the_first() -> None:
    assert largest(np.array([1.0, 3.0, 3.0, 2.0]), 2).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "k must be given unless exact=True; got None"),
        ({"k": 3, "q": 4}, "q must be at most k, 3; got 4"),
        ({"k": 3, "exact": True}, "k, replacement and steps must be left alone where exact=True; got k=3"),
        ({"k": 3, "steps": 2}, "steps must be left alone unless replacement=True; got 2"),
        ({"k": 0}, "k must be at least 1; got 0"),
    ],
)
def test_bad_settings_are_refused(settings: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        bc.Ordered(**settings)


def test_requests_that_cannot_be_met(make_pairs: MakePairs) -> None:
    u, v = make_pairs(8)
    with pytest.raises(ValueError, match="k must be at most the number of batches, 2; got 3"):
        bc.Ordered(k=3)(u, v, batch_size=4)
    with pytest.raises(ValueError, match=r"q must be at most C\(N, B\) = 70; got 71"):
        bc.Ordered(exact=True, q=71)(u, v, batch_size=4)
