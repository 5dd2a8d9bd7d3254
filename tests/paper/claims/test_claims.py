"""Every claim comes out as expected, and none would if a constant were wrong."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from batchcut.losses.paper import contrastive_loss, minibatch_loss, two_sided_loss
from batchcut.paper.claims import (
    Check,
    _batches,
    _convergence,
    _effective,
    _graph,
    _optima,
    _quasiconvexity,
    _smoothness,
    checks,
)
from batchcut.paper.claims import _bounds as bounds
from batchcut.paper.claims import _toy as _toy_claims
from batchcut.paper.claims import _toy_trajectory as toy
from batchcut.paper.claims._quasiconvexity import _three_points as three_points
from batchcut.selection import Cut, EffectiveSize, effective_batch_size, gradient_table
from batchcut.theory import one_thread, optimal_loss

LABELS_ASKED_FOR = {
    "thm:standard-full-batch-case1",
    "thm:standard-full-batch-case2",
    "prop:prop1",
    "thm:NcB-reaches-etf",
    "thm:sub-batch",
    "thm:ncb-is-necessary1",
    "thm:ncb-is-necessary2",
    "lem:lclipnonquasiconvex",
    "thm:Toy-example",
    "coro:convergence_comparison",
    "theorem 9",
    "thm:bdd-of-grad",
    "thm:lipschtiz-of-loss-grad",
    "lem:loss_M_is_lip_and_bdd",
    "thm:osgd_convergence",
    "subsec:spectral_clustering",
    "effective batch size",
}


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with one_thread():
        yield


@pytest.mark.parametrize("function", checks(), ids=lambda function: function.__name__)
def test_claim_comes_out_as_expected(function: Callable[[], Check]) -> None:
    outcome = function()
    assert outcome.as_expected, outcome


def test_no_asked_for_claim_is_missing() -> None:
    from batchcut.paper.claims import labels

    assert set(labels()) >= LABELS_ASKED_FOR


def scaled(function: Callable[..., float], factor: float) -> Callable[..., float]:
    return lambda *args, **kwargs: factor * function(*args, **kwargs)


def without_the_last(u: Any, v: Any, batches: Any, **how: Any) -> EffectiveSize:
    return effective_batch_size(u, v, batches[:, :-1], **how)


def too_sure(u: Any, v: Any, batches: Any, **how: Any) -> EffectiveSize:
    found = effective_batch_size(u, v, batches, **how)
    low, high = (found.size * (end / found.size) ** 0.5 for end in (found.low, found.high))
    return dataclasses.replace(found, low=low, high=high)


BROKEN: list[tuple[Callable[[], Check], Any, str, Any]] = [
    (_smoothness.gradient_is_bounded, _smoothness, "GRADIENT_BOUND", 3.5),
    (
        _smoothness.similarity_gradient_is_bounded,
        _smoothness,
        "similarity_gradient_bound",
        scaled(bounds.similarity_gradient_bound, 0.88),
    ),
    (
        _smoothness.similarity_gradient_is_lipschitz,
        _smoothness,
        "similarity_smoothness",
        scaled(bounds.similarity_smoothness, 0.38),
    ),
    (_smoothness.gradient_is_lipschitz, _smoothness, "smoothness", scaled(bounds.smoothness, 0.18)),
    (_smoothness.ordered_loss_is_weakly_convex, _smoothness, "smoothness", scaled(bounds.smoothness, 0.1)),
    (_convergence.ordinary_runs, _convergence, "osgd_bound", scaled(bounds.osgd_bound, 1 / 15)),
    (_convergence.envelope_runs, _convergence, "osgd_bound", scaled(bounds.osgd_bound, 1 / 10)),
    (_toy_claims.step_ratio, _toy_claims, "LIMIT", 0.27),
    (_toy_claims.step_ratio_in_the_limit, _toy_claims, "LIMIT", 0.2522),
    (_toy_claims.constants, toy, "mixing_constant", scaled(toy.mixing_constant, 1.01)),
    (_toy_claims.final_loss, _toy_claims, "optimal_loss", scaled(optimal_loss, 1.001)),
    (_effective.full_batch_gives_all, _effective, "effective_batch_size", without_the_last),
    (_effective.random_batches_give_theirs, _effective, "Shuffle", Cut),
    (_effective.interval_covers, _effective, "effective_batch_size", too_sure),
    (
        _effective.curve_is_that_of_all_batches,
        _effective,
        "gradient_table",
        lambda u, v, temperature: gradient_table(u, v, temperature=1.001 * temperature),
    ),
    (
        _effective.mass_of_negatives_grows,
        _effective,
        "_mass_of_negatives",
        lambda _, rows: np.full((2, 7), -rows.shape[1]),
    ),
    (
        _effective.mass_of_negatives_is_concave,
        _effective,
        "_mass_of_negatives",
        lambda _, rows: np.full((2, 7), rows.shape[1] ** 2),
    ),
    (_effective.curve_may_fall, _effective, "FALLING", ([0, 6, 12, 18], [1, 7, 13, 19])),
    (_graph.jensen, _graph, "jensen_bound", lambda x: bounds.jensen_bound(x) * (1 + 1e-6)),
    (_optima.full_batch_small, _optima, "optimal_loss", scaled(optimal_loss, 1 + 1e-9)),
    (_optima.full_batch_twice, _optima, "optimal_loss", scaled(optimal_loss, 1 + 1e-9)),
    (_optima.all_batches_small, _optima, "optimal_loss", scaled(optimal_loss, 1 + 1e-9)),
    (_optima.all_batches_twice, _optima, "optimal_loss", scaled(optimal_loss, 1 + 1e-9)),
    (_optima.not_a_scaling, _optima, "contrastive_loss", lambda u, v: 1.01 * torch.logsumexp(u @ v.T, 1).mean()),
    (_batches.a_partition, _batches, "optimal_loss", scaled(optimal_loss, 2.0)),
    (_batches.a_pair_that_never_meets, _batches, "minibatch_loss", lambda u, v, batches: -(u @ v.T)[0, -1]),
    (_batches.pairs_need_all, _batches, "minibatch_loss", lambda u, v, batches: torch.tensor(1.0)),
    (_quasiconvexity.non_quasi_convex, _quasiconvexity, "contrastive_loss", lambda u, v: -(u * v).sum()),
    (_quasiconvexity.printed_values, _quasiconvexity, "contrastive_loss", lambda u, v: 2 * contrastive_loss(u, v)),
]


@pytest.mark.parametrize(("function", "module", "name", "wrong"), BROKEN, ids=lambda x: getattr(x, "__name__", None))
def test_claim_fails_when_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch, function: Callable[[], Check], module: Any, name: str, wrong: Any
) -> None:
    monkeypatch.setattr(module, name, wrong)
    # Fewer settings, the decisive ones among them: the point is that the claim can fail.
    monkeypatch.setattr(_smoothness, "SIZES", (2, 8))
    monkeypatch.setattr(_smoothness, "DIMENSIONS", (1,))
    monkeypatch.setattr(_convergence, "SETTINGS", [_convergence.SETTINGS[-1]])
    for cases in ("FULL_SMALL", "FULL_TWICE", "BATCHES_SMALL", "BATCHES_TWICE"):
        monkeypatch.setattr(_optima, cases, getattr(_optima, cases)[1:2])
    if module is toy:
        monkeypatch.setattr(_toy_claims, name, wrong)
    assert not function().holds


KNOWN_MISTAKES: list[tuple[Callable[[], Check], Any, str, Any]] = [
    (_optima.not_a_scaling_as_printed, _optima, "contrastive_loss", lambda u, v: contrastive_loss(u, v) + u[1, 0]),
    (_batches.a_partition_as_printed, _batches, "full_batch", lambda: lambda x: -two_sided_loss(x)),
    (_batches.a_pair_that_never_meets_as_printed, _batches, "full_batch", lambda: lambda x: -two_sided_loss(x)),
    (_batches.supports_the_theorem, _batches, "minibatch_loss", lambda u, v, batches: -minibatch_loss(u, v, batches)),
    (_quasiconvexity.non_quasi_convex_as_printed, _quasiconvexity, "_three_points", lambda _: three_points(0.8)),
    (_toy_claims.step_ratio_at_fixed_rate, _toy_claims, "REPLICATES", 1),
    (_toy_claims.leading_terms, _toy_claims, "leading_bounds", lambda **_: toy.ToyBounds(osgd=1.0, sgd=1.0)),
    (_smoothness.ordered_gradient_as_printed, _smoothness, "smoothness", lambda size: 1e6),
    (_convergence.at_the_optimum_as_printed, _convergence, "osgd_bound", lambda **_: 1.0),
]


@pytest.mark.parametrize(
    ("function", "module", "name", "wrong"), KNOWN_MISTAKES, ids=lambda x: getattr(x, "__name__", None)
)
def test_known_mistake_is_noticed_when_it_goes_away(
    monkeypatch: pytest.MonkeyPatch, function: Callable[[], Check], module: Any, name: str, wrong: Any
) -> None:
    assert function().as_expected
    monkeypatch.setattr(module, name, wrong)
    outcome = function()
    assert outcome.holds
    assert not outcome.as_expected


def test_log_form_fails_for_a_larger_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def larger(**settings: float) -> toy.ToyBounds:
        right = toy.log_bounds(**settings)
        return toy.ToyBounds(osgd=1.1 * right.osgd, sgd=right.sgd)

    monkeypatch.setattr(_toy_claims, "log_bounds", larger)
    assert not _toy_claims.log_form().holds


def test_failed_computation_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_quasiconvexity, "contrastive_loss", lambda u, v: torch.tensor(math.nan))
    outcome = _quasiconvexity.non_quasi_convex()
    assert not outcome.holds
    assert not outcome.as_expected
