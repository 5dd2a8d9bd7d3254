"""The constants and bounds of the paper."""

import math
from collections.abc import Sequence

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from batchcut._errors import check_integer, check_positive, invalid

GRADIENT_BOUND = 4.0
"""Bound of the gradient of a batch's loss for embeddings in the unit ball (`thm:bdd-of-grad`)."""


def smoothness(batch_size: int) -> float:
    """ρ₀ = 2 √(2/B) + 4 e²/B, Lipschitz constant of that gradient (`thm:lipschtiz-of-loss-grad`)."""
    size = check_integer("batch_size", batch_size, at_least=2)
    return 2 * math.sqrt(2 / size) + 4 * math.e**2 / size


def similarity_gradient_bound(batch_size: int) -> float:
    """2 √(2/B), bound of the gradient by the similarities in [-1, 1] (`lem:loss_M_is_lip_and_bdd`)."""
    return 2 * math.sqrt(2 / check_integer("batch_size", batch_size, at_least=2))


def similarity_smoothness(batch_size: int) -> float:
    """2 e²/B², Lipschitz constant of the gradient by the similarities (`lem:loss_M_is_lip_and_bdd`)."""
    return 2 * math.e**2 / check_integer("batch_size", batch_size, at_least=2) ** 2


def osgd_bound(
    *,
    batch_size: int,
    start_gap: float,
    learning_rates: Sequence[float],
    rho: float | None = None,
    envelope: bool = False,
) -> float:
    """The bound of `thm:osgd_convergence` on the expected squared gradient norm of OSGD's objective.

        (ρ + ρ₀)² / (ρ (ρ − ρ₀)) · (L̃(U⁽⁰⁾, V⁽⁰⁾) − L̃* + 8 ρ Σ_t η_t²) / Σ_t η_t

    Args:
        batch_size: B.
        start_gap: how far the objective starts above its minimum.
        learning_rates: η_t of the steps.
        rho: above ρ₀; the one that makes the bound smallest if left out.
        envelope: bound the gradient of the Moreau envelope instead (`thm:osgd_convergence_rho`), whose first factor is
            ρ / (ρ - ρ₀).
    """
    rho_0 = smoothness(batch_size)
    if len(learning_rates) == 0:
        raise invalid("learning_rates", "hold at least one", "none")
    for rate in learning_rates:
        check_positive("learning_rates", rate)
    if not (math.isfinite(start_gap) and start_gap >= 0):
        raise invalid("start_gap", "be finite and at least 0", start_gap)
    total, squares = sum(learning_rates), sum(rate**2 for rate in learning_rates)

    def bound(rho: float) -> float:
        factor = rho / (rho - rho_0) if envelope else (rho + rho_0) ** 2 / (rho * (rho - rho_0))
        return factor * (start_gap + 8 * rho * squares) / total

    if rho is None:
        excess = minimize_scalar(lambda x: math.log(bound(rho_0 * (1 + math.exp(x)))), bounds=(-10, 20)).x
        rho = rho_0 * (1 + math.exp(excess))
    if not rho > rho_0:
        raise invalid("rho", f"be above {rho_0:.4g}", rho)
    return bound(rho)


def jensen_bound(similarities: Tensor) -> Tensor:
    """Lower bound of the loss of a batch with similarities X: (..., B, B), a sum over pairs.

        1 / (B (B−1)) · Σ_i Σ_{j≠i} [log(1 + (B−1) e^{X_ij − X_ii}) + log(1 + (B−1) e^{X_ji − X_ii})]

    (`subsec:spectral_clustering`); 1/(B (B-1)) times the sum of the weights w(k, l) over the pairs of the batch.
    """
    size = similarities.shape[-1]
    if similarities.ndim < 2 or similarities.shape[-2] != size or size < 2:
        raise invalid("similarities", "have shape (..., B, B) with B at least 2", tuple(similarities.shape))
    positive = similarities.diagonal(dim1=-2, dim2=-1)
    others = ~torch.eye(size, dtype=torch.bool)
    total = torch.zeros_like(positive[..., 0])
    for x in (similarities, similarities.mT):
        terms = torch.nn.functional.softplus(x - positive[..., None] + math.log(size - 1))
        total = total + (terms * others).sum(dim=(-2, -1))
    return total / (size * (size - 1))
