import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchcut as bc

MakePairs = Callable[..., tuple[Any, Any]]


def slow_weight(u: Any, v: Any, k: int, other: int, size: int, tau: float, margin: float | None = None) -> float:
    """w(k, l), term by term as `subsec:spectral_clustering` writes it."""
    if k == other:
        return 0.0
    total, lost = 0.0, 0.0
    for i, j in ((k, other), (other, k)):
        total += math.log(1 + (size - 1) * math.exp(u[i] @ (v[j] - v[i]) / tau))
        total += math.log(1 + (size - 1) * math.exp(v[i] @ (u[j] - u[i]) / tau))
        lost += u[i] @ v[i] - u[i] @ v[j]
    return 0.0 if margin is not None and lost <= 2 * margin else total


@pytest.mark.parametrize("margin", [None, 0.0, 0.4])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-5), (np.float32, 1e-4)])
def test_weights_are_those_of_the_paper(make_pairs: MakePairs, margin: Any, dtype: Any, tolerance: float) -> None:
    u, v = make_pairs(20, clusters=4)
    weights = bc.selection.pair_weights(u.astype(dtype), v.astype(dtype), 5, 0.3, margin=margin)
    expected = [[slow_weight(u, v, k, j, 5, 0.3, margin) for j in range(20)] for k in range(20)]
    assert weights.dtype == dtype
    np.testing.assert_allclose(weights, expected, rtol=tolerance, atol=tolerance)
    assert ((weights == 0).sum() > 20) == (margin == 0.4)


def test_tiles_meet_at_their_edges(make_pairs: MakePairs) -> None:
    u, v = make_pairs(1100, 4)
    weights = bc.selection.pair_weights(u, v, 8, 0.5)
    np.testing.assert_array_equal(weights, weights.T)
    for k, j in ((0, 1099), (511, 512), (512, 1023), (1024, 3), (700, 701)):
        assert weights[k, j] == pytest.approx(slow_weight(u, v, k, j, 8, 0.5))


def test_copies_are_within_a_margin_of_zero(make_pairs: MakePairs) -> None:
    u, v = make_pairs(12, copies=4)
    for dtype in (np.float32, np.float64):
        weights = bc.selection.pair_weights(u.astype(dtype), v.astype(dtype), 4, 0.1, margin=0.0)
        assert (weights[:4, :4] == 0).all()
        assert weights[0, 5:].any()


@given(st.integers(2, 12), st.floats(0.02, 2.0), st.integers(0, 10))
def test_jensen_bound_holds(make_pairs: MakePairs, size: int, tau: float, seed: int) -> None:
    u, v = make_pairs(3 * size, 4, seed=seed)
    plan = bc.Shuffle(temperature=tau)(u, v, batch_size=size, seed=seed)
    weights = bc.selection.pair_weights(u, v, size, tau)
    for batch, loss, weight in zip(plan, plan.losses, plan.weights, strict=True):
        within = weights[np.ix_(batch, batch)].sum() / 2
        assert weight == pytest.approx(within, rel=1e-4, abs=1e-4)
        assert 2 * loss >= within / (size * (size - 1)) - 1e-5  # the paper adds the two directions


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"batch_size": 1}, ValueError, "batch_size must be at least 2; got 1"),
        ({"temperature": 0.0}, ValueError, "temperature must be finite and above 0; got 0.0"),
        ({"margin": "a"}, TypeError, "margin must be None or a number; got str"),
        ({"margin": math.nan}, ValueError, "margin must be finite; got nan"),
    ],
)
def test_bad_arguments_are_refused(make_pairs: MakePairs, arguments: Any, error: type[Exception], text: str) -> None:
    u, v = make_pairs(6)
    with pytest.raises(error, match=text):
        bc.selection.pair_weights(**{"u": u, "v": v, "batch_size": 3, "temperature": 0.1, **arguments})
