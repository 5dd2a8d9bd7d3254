"""Gradient descent on the sphere, with embeddings as free parameters."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from batchcut._errors import check_integer, check_positive, invalid
from batchcut.losses import check_pair

from ._threads import one_thread

SMALL = 2**16
"""Fewer numbers than this are worked on by one thread."""

Normalize = Literal["each step", "in the loss"]
"""Where rows are brought to unit length: by the algorithm, or within what is minimised."""


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Where a descent ended, and how it went.

    Attributes:
        u: (N, d) unit rows.
        v: (N, d) unit rows.
        losses: (steps,) the objective before each step.
    """

    u: Tensor
    v: Tensor
    losses: Tensor


def random_embeddings(n: int, d: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Two independent sets of n unit rows in d dimensions, as the paper's experiments start (`sec:synthetic_exp`)."""
    n = check_integer("n", n, at_least=2)
    d = check_integer("d", d, at_least=1)
    generator = torch.Generator().manual_seed(check_integer("seed", seed, at_least=0))
    rows = torch.randn(2, n, d, dtype=torch.float64, generator=generator)
    u, v = F.normalize(rows, dim=-1)
    return u, v


def descend(
    objective: Callable[[Tensor, Tensor], Tensor],
    u: Tensor,
    v: Tensor,
    *,
    learning_rate: float = 0.5,
    steps: int = 500,
    normalize: Normalize = "each step",
    observe: Callable[[int, Tensor, Tensor], None] | None = None,
) -> Descent:
    """Minimises `objective(u, v)` over unit rows u: (N, d), v: (N, d), starting from the given ones.

    "each step" is the paper's text: U ← normalize(U − η ∇_U L) (`alg:sgd_w_replacement`).
    "in the loss" is the authors' code: descent on free rows that the loss sees normalised; their length grows, so that
    the steps on the sphere become shorter. An objective that draws batches anew at each call makes this SGD or OSGD.

    Args:
        objective: any loss of unit rows, such as `partial(minibatch_loss, batches="all", batch_size=2)`.
        u: start of one side.
        v: start of the other side.
        learning_rate: above 0.
        steps: how many.
        normalize: where rows are brought to unit length.
        observe: called with the step and the unit rows before each step.
    """
    check_pair(u, v)
    check_positive("learning_rate", learning_rate)
    check_integer("steps", steps, at_least=0)
    if normalize not in ("each step", "in the loss"):
        raise invalid("normalize", "be 'each step' or 'in the loss'", repr(normalize))
    free = F.normalize(torch.stack([u, v]).detach(), dim=-1)
    losses = free.new_empty(steps)
    with one_thread() if u.numel() < SMALL else nullcontext():
        for step in range(steps):
            free = free.detach().requires_grad_()
            unit = F.normalize(free, dim=-1) if normalize == "in the loss" else free
            if observe is not None:
                observe(step, *unit.detach())
            loss = objective(unit[0], unit[1])
            losses[step] = loss.detach()
            (gradient,) = torch.autograd.grad(loss, free)
            free = free.detach() - learning_rate * gradient
            if normalize == "each step":
                free = F.normalize(free, dim=-1)
    final_u, final_v = F.normalize(free, dim=-1).detach()
    return Descent(u=final_u, v=final_v, losses=losses)
