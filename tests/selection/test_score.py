from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import batchcut as bc
from batchcut.losses import contrastive_loss
from batchcut.selection._inputs import unit_pairs
from batchcut.selection._score import score
from batchcut.selection._weights import Weighting

MakePairs = Callable[..., tuple[Any, Any]]


def slow_loss(u: Any, v: Any, tau: float) -> float:
    """Half of `eq:full_CLIP_loss`, in double precision."""
    scores = u @ v.T / tau
    own = np.diag(scores)
    return float((np.logaddexp.reduce(scores, axis=1) - own + np.logaddexp.reduce(scores, axis=0) - own).mean() / 2)


@pytest.mark.parametrize("tau", [0.005, 0.05, 0.2, 1.0])  # the first two overflow the fast way and take the safe one
def test_losses_and_weights_match_the_slow_ones(make_pairs: MakePairs, tau: float) -> None:
    u, v = make_pairs(30, clusters=3)
    batches = np.random.default_rng(0).permutation(30).reshape(3, 10)
    pairs = unit_pairs(u, v)
    outcome = score(pairs, batches, Weighting.of(pairs, 10, tau, None))
    weights = bc.selection.pair_weights(u, v, 10, tau)
    for batch, loss, weight in zip(batches, outcome.losses, outcome.weights, strict=True):
        assert loss == pytest.approx(slow_loss(u[batch], v[batch], tau), rel=1e-4, abs=2e-6)
        assert weight == pytest.approx(weights[np.ix_(batch, batch)].sum() / 2, rel=1e-4, abs=1e-5)


def test_both_ways_to_score_agree(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = unit_pairs(*make_pairs(47, clusters=3, copies=6))
    batches = np.append(np.arange(47), -1).reshape(6, 8)
    weighting = Weighting.of(pairs, 8, 0.2, 0.1)
    assert weighting.factors(weighting.scale * pairs.positive, weighting.bars) is not None
    fast = score(pairs, batches, weighting)
    monkeypatch.setattr(Weighting, "factors", lambda *_: None)
    safe = score(pairs, batches, weighting)
    np.testing.assert_allclose(fast.losses, safe.losses, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fast.weights, safe.weights, rtol=1e-5, atol=1e-5)
    assert fast.margin_pairs == safe.margin_pairs > 0


def test_losses_are_those_of_the_losses_package(make_pairs: MakePairs) -> None:
    u, v = make_pairs(40)
    plan = bc.Shuffle(temperature=0.2)(u, v, batch_size=8)
    for batch, loss in zip(plan, plan.losses, strict=True):
        expected = contrastive_loss(torch.tensor(u[batch]), torch.tensor(v[batch]), temperature=0.2)
        assert loss == pytest.approx(float(expected), rel=1e-5)


def test_short_batch_is_scored_by_itself(make_pairs: MakePairs) -> None:
    u, v = make_pairs(11)
    plan = bc.Shuffle(temperature=0.2)(u, v, batch_size=4, drop_last=False)
    last = list(plan)[-1]
    assert len(last) == 3
    assert plan.losses[-1] == pytest.approx(slow_loss(u[last], v[last], 0.2), rel=1e-5)
    weights = bc.selection.pair_weights(u, v, 4, 0.2)
    assert plan.weights[-1] == pytest.approx(weights[np.ix_(last, last)].sum() / 2, rel=1e-5)


def test_pairs_within_the_margin_are_counted_and_weigh_nothing(make_pairs: MakePairs) -> None:
    u, v = make_pairs(12, copies=5)
    batches = np.arange(12).reshape(1, 12)
    pairs = unit_pairs(u, v)
    outcome = score(pairs, batches, Weighting.of(pairs, 12, 0.1, 0.0))
    weights = bc.selection.pair_weights(u, v, 12, 0.1, margin=0.0)
    assert outcome.margin_pairs == ((weights == 0).sum() - 12) // 2 >= 10
    assert outcome.weights[0] == pytest.approx(weights.sum() / 2, rel=1e-5)


@pytest.mark.parametrize(("tau", "margin"), [(0.1, 0.3), (0.01, 0.55), (0.005, 0.3), (1e-6, 0.05)])
def test_pairs_within_the_margin_are_counted_where_exponentials_would_underflow(
    make_pairs: MakePairs, tau: float, margin: float
) -> None:
    u, v = make_pairs(400, 32)
    v = (u + 0.02 * v).astype(np.float32)  # positives so close that the fast way would not overflow
    plan = bc.Shuffle(temperature=tau, margin=margin)(u, v, batch_size=20)
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (u.astype(np.float64), v.astype(np.float64)))
    expected = 0
    for batch in plan:
        similarity = a[batch] @ b[batch].T
        own = similarity.diagonal()
        close = similarity + similarity.T >= own[:, None] + own - 2 * margin
        expected += int(np.triu(close, 1).sum())
    assert plan.margin_pairs == expected
