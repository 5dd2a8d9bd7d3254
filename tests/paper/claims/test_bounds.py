import math
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

from batchcut.losses.paper import contrastive_loss
from batchcut.paper.claims import jensen_bound, osgd_bound, smoothness
from batchcut.selection import pair_weights
from batchcut.theory import random_embeddings


def test_smoothness_by_hand() -> None:
    assert smoothness(2) == pytest.approx(2 + 2 * math.e**2)
    assert smoothness(8) == pytest.approx(1 + math.e**2 / 2)


def test_osgd_bound_by_hand() -> None:
    rho_0 = smoothness(2)
    rho = 2 * rho_0
    wanted = (3 * rho_0) ** 2 / (rho * rho_0) * (0.5 + 8 * rho * (0.01 + 0.04)) / 0.3
    assert osgd_bound(batch_size=2, start_gap=0.5, learning_rates=[0.1, 0.2], rho=rho) == pytest.approx(wanted)


@pytest.mark.parametrize("gap", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("envelope", [False, True])
def test_default_rho_makes_the_bound_smallest(gap: float, envelope: bool) -> None:
    def bound(rho: float | None) -> float:
        return osgd_bound(batch_size=4, start_gap=gap, learning_rates=[0.01] * 10, rho=rho, envelope=envelope)

    assert all(bound(None) <= bound(times * smoothness(4)) for times in (1.1, 1.5, 2, 2.9, 3.1, 5, 10, 100))
    if gap == 0 and not envelope:
        assert bound(None) == pytest.approx(bound(3 * smoothness(4)))


def test_envelope_has_the_smaller_factor() -> None:
    settings = {"batch_size": 4, "start_gap": 1.0, "learning_rates": [0.1], "rho": 3 * smoothness(4)}
    ratio = osgd_bound(**settings) / osgd_bound(**settings, envelope=True)  # type: ignore[arg-type]
    assert ratio == pytest.approx((4 / 3) ** 2)


def test_rho_must_exceed_the_smoothness() -> None:
    with pytest.raises(ValueError, match=r"rho must be above 16\.78; got 1\.0"):
        osgd_bound(batch_size=2, start_gap=1.0, learning_rates=[0.1], rho=1.0)


def test_jensen_bound_equals_the_slow_version() -> None:
    u, v = random_embeddings(5, 3, seed=0)
    total = 0.0
    for i in range(5):
        for j in set(range(5)) - {i}:
            total += math.log(1 + 4 * math.exp(u[i] @ (v[j] - v[i])))
            total += math.log(1 + 4 * math.exp(v[i] @ (u[j] - u[i])))
    assert float(jensen_bound(u @ v.T)) == pytest.approx(total / 20, abs=1e-12)


def test_jensen_bound_is_tight_for_pairs_and_for_collapsed_batches() -> None:
    u, v = random_embeddings(2, 3, seed=0)
    assert float(jensen_bound(u @ v.T)) == pytest.approx(float(contrastive_loss(u, v)), abs=1e-12)
    collapsed = torch.ones(6, 2, dtype=torch.float64)
    assert float(jensen_bound(collapsed @ collapsed.T)) == pytest.approx(2 * math.log(6), abs=1e-12)


def test_jensen_bound_is_the_sum_of_the_pair_weights() -> None:
    u, v = random_embeddings(6, 4, seed=1)
    weights = pair_weights(u, v, 6, 0.2)
    assert float(jensen_bound(u @ v.T / 0.2)) == pytest.approx(weights[np.triu_indices(6, 1)].sum() / 30, rel=1e-6)


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: jensen_bound(torch.ones(1, 1)), "similarities must have shape (..., B, B) with B at least 2; got (1, 1)"),
    (lambda: jensen_bound(torch.ones(2, 3)), "got (2, 3)"),
    (
        lambda: osgd_bound(batch_size=2, start_gap=1.0, learning_rates=[]),
        "learning_rates must hold at least one",
    ),
    (
        lambda: osgd_bound(batch_size=2, start_gap=1.0, learning_rates=[-1]),
        "learning_rates must be finite and above 0",
    ),
    (lambda: osgd_bound(batch_size=2, start_gap=-1.0, learning_rates=[1]), "start_gap must be finite and at least 0"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_error_names_argument_rule_and_value(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
