"""Every claim comes out as expected, and none would if a constant were wrong."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from batchcut import contrastive_loss
from batchcut.theory import Check, checks
from batchcut.theory import _bounds as bounds
from batchcut.theory import _optima as optima
from batchcut.theory import _toy as toy
from batchcut.theory.claims import _batches, _convergence, _graph, _optima, _quasiconvexity, _smoothness
from batchcut.theory.claims import _toy as _toy_claims

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
    "thm:bdd-of-grad",
    "thm:lipschtiz-of-loss-grad",
    "lem:loss_M_is_lip_and_bdd",
    "thm:osgd_convergence",
    "subsec:spectral_clustering",
}


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("function", checks(), ids=lambda function: function.__name__)
def test_claim_comes_out_as_expected(function: Callable[[], Check]) -> None:
    outcome = function()
    assert outcome.as_expected, outcome


def test_no_asked_for_claim_is_missing() -> None:
    from batchcut.theory import labels

    assert set(labels()) >= LABELS_ASKED_FOR


def scaled(function: Callable[..., float], factor: float) -> Callable[..., float]:
    return lambda *args, **kwargs: factor * function(*args, **kwargs)


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
    (_toy_claims.final_loss, _toy_claims, "optimal_loss", scaled(optima.optimal_loss, 1.001)),
    (_graph.jensen, _graph, "jensen_bound", lambda x: bounds.jensen_bound(x) * (1 + 1e-6)),
    (_optima.full_batch_small, _optima, "optimal_loss", scaled(optima.optimal_loss, 1 + 1e-9)),
    (_optima.full_batch_twice, _optima, "optimal_loss", scaled(optima.optimal_loss, 1 + 1e-9)),
    (_optima.all_batches_small, _optima, "optimal_loss", scaled(optima.optimal_loss, 1 + 1e-9)),
    (_optima.all_batches_twice, _optima, "optimal_loss", scaled(optima.optimal_loss, 1 + 1e-9)),
    (_optima.not_a_scaling, _optima, "contrastive_loss", lambda u, v: 1.01 * torch.logsumexp(u @ v.T, 1).mean()),
    (_batches.a_partition, _batches, "optimal_loss", scaled(optima.optimal_loss, 2.0)),
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
