"""The contrastive loss of a batch too large for its matrix of similarities."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from batchcut._conventions import DEFAULT_TEMPERATURE

from ._similarity import at_least_float32, unit_rows, without_autocast
from ._validate import check_pair, check_temperature

STRIPE = 2**21
"""How many similarities are held at once: small enough for a CPU's cache ..."""

FEWEST_ROWS = 256
"""... but no stripe so thin that the matrix products become slow."""


def full_batch_loss(u: Tensor, v: Tensor, *, temperature: float | Tensor = DEFAULT_TEMPERATURE) -> Tensor:
    """`contrastive_loss` (CLIP's) of u: (n, d) and v: (n, d), same value and gradient, in O(n d) memory.

    Rows are scaled to unit length, and the mean is over both directions. The n × n similarities are made in stripes of
    rows. A first pass keeps the log-sum of each row and column; the backward pass makes the stripes anew. Not twice
    differentiable.
    """
    check_pair(u, v)
    return paper_full_batch_loss(unit_rows(u), unit_rows(v), temperature=temperature) / 2


def paper_full_batch_loss(u: Tensor, v: Tensor, *, temperature: float | Tensor = 1.0) -> Tensor:
    """The paper's L of u: (n, d) and v: (n, d) in O(n d) memory; for unit rows twice `losses.full_batch_loss`."""
    check_pair(u, v)
    # Scaled outside of the function below, so that autograd finds the gradient of a learned temperature.
    scaled = at_least_float32(u) / check_temperature(temperature)
    loss: Tensor = _FullBatchLoss.apply(scaled, at_least_float32(v))  # type: ignore[no-untyped-call]
    return loss


class _FullBatchLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor) -> Tensor:
        with without_autocast(u):
            positive, rows, columns = _positives_and_log_sums(u, v)
        ctx.save_for_backward(u, v, rows, columns)
        loss: Tensor = (rows - positive).mean() + (columns - positive).mean()
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled():  # not torch's own check, which what stands before this function would hide
            raise RuntimeError("full_batch_loss cannot be differentiated twice; contrastive_loss can")
        u, v, rows, columns = ctx.saved_tensors
        # n ∂L/∂X = P + Q - 2 I, with P and Q the softmax over rows and columns (`lem:loss_M_is_lip_and_bdd`).
        grad_u, grad_v = -2 * v, -2 * u
        with without_autocast(u):
            for stripe in _stripes(len(u)):
                logits = u[stripe] @ v.T
                softmaxes = (logits - rows[stripe, None]).exp_()
                softmaxes += logits.sub_(columns).exp_()
                grad_u[stripe].addmm_(softmaxes, v)
                grad_v.addmm_(softmaxes.T, u[stripe])
        scale = grad / len(u)
        return grad_u.mul_(scale), grad_v.mul_(scale)


def _positives_and_log_sums(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Diagonal of u vᵀ and the log-sum-exp of each row and column; the last by the running maximum of its stripes.

    The diagonal comes from the stripes too: computed in another way it would differ in the last digits, which at a
    low temperature are not small.
    """
    positive, rows = u.new_empty(len(u)), u.new_empty(len(u))
    highest = u.new_full((len(u),), -torch.inf)
    total = u.new_zeros(len(u))
    for stripe in _stripes(len(u)):
        logits = u[stripe] @ v.T
        positive[stripe] = logits.diagonal(stripe.start)
        rows[stripe] = torch.logsumexp(logits, dim=1)
        higher = torch.maximum(highest, logits.amax(dim=0))
        total *= (highest - higher).exp_()
        total += logits.sub_(higher).exp_().sum(dim=0)
        highest = higher
    return positive, rows, highest + total.log_()


def _stripes(n: int) -> Iterator[slice]:
    height = max(FEWEST_ROWS, STRIPE // n)
    return (slice(start, start + height) for start in range(0, n, height))
