"""The best configuration that many starts find, polished by a second-order method."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from batchcut._errors import check_integer

from ._objectives import Objective

Shape = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Makes embeddings u, v: (..., n, d) out of free parameters, so that a restriction holds by construction."""

FIRST_ORDER_STEPS = 500
POLISHED = 3
"""How many of the starts are polished: the lowest before need not be the lowest after."""
SAME_LOSS = 1e-6
"""A start that ends within this of the minimum has found it."""


@dataclass(frozen=True, kw_only=True)
class Minimum:
    """The lowest point that a search found.

    Attributes:
        u: (n, d) unit rows.
        v: (n, d) unit rows.
        loss: the objective there.
        gradient: norm of the gradient there, along the sphere.
        reached: the share of the starts that ended at this loss.
    """

    u: Tensor
    v: Tensor
    loss: float
    gradient: float
    reached: float


def minimise(
    objective: Objective, n: int, d: int, *, starts: int = 32, seed: int = 0, restriction: str = "none"
) -> Minimum:
    """Minimises an objective over n unit pairs in d dimensions.

    All starts descend at once by Adam with a falling step length; the best few are polished by a trust-region method
    with the exact Hessian, to a gradient of about 1e-8. The result is the lowest minimum found; that none is lower is
    no more than likely.

    Args:
        objective: a function of the inner products.
        n: the number of pairs.
        d: the dimension.
        starts: how many random starts.
        seed: of the starts.
        restriction: "none"; "symmetric" (U = V); or "antipodal" (U = V and each row's negative is a row, n even).
    """
    n = check_integer("n", n, at_least=2)
    d = check_integer("d", d, at_least=1)
    starts = check_integer("starts", starts, at_least=1)
    rows, shape = _RESTRICTIONS[restriction](n)
    generator = torch.Generator().manual_seed(seed)
    free = torch.randn(starts, rows, d, dtype=torch.float64, generator=generator)
    free, losses = _descend_all(objective, shape, free)
    candidates = [_polish(objective, shape, free[start]) for start in losses.argsort()[:POLISHED]]
    (loss, gradient), best = min(
        ((_value_and_gradient(objective, shape, candidate), candidate) for candidate in candidates),
        key=lambda found: found[0],
    )
    u, v = (x.detach() for x in shape(_unit(best)))
    reached = float((losses < loss + SAME_LOSS).double().mean())
    return Minimum(u=u, v=v, loss=loss, gradient=gradient, reached=reached)


_RESTRICTIONS: dict[str, Callable[[int], tuple[int, Shape]]] = {
    "none": lambda n: (2 * n, lambda x: (x[..., :n, :], x[..., n:, :])),
    "symmetric": lambda n: (n, lambda x: (x, x)),
    "antipodal": lambda n: (n // 2, lambda x: (torch.cat([x, -x], dim=-2),) * 2),
}


def _unit(x: Tensor) -> Tensor:
    return torch.nn.functional.normalize(x, dim=-1)


def _loss(objective: Objective, shape: Shape, free: Tensor) -> Tensor:
    u, v = shape(_unit(free))
    return objective(u @ v.mT)


def _value_and_gradient(objective: Objective, shape: Shape, free: Tensor) -> tuple[float, float]:
    free = _unit(free).detach().requires_grad_()
    loss = _loss(objective, shape, free)
    (gradient,) = torch.autograd.grad(loss, free)
    return float(loss.detach()), float(torch.linalg.vector_norm(gradient))


def _descend_all(objective: Objective, shape: Shape, free: Tensor) -> tuple[Tensor, Tensor]:
    free = free.requires_grad_()
    optimiser = torch.optim.Adam([free], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, FIRST_ORDER_STEPS, eta_min=1e-4)
    for _ in range(FIRST_ORDER_STEPS):
        optimiser.zero_grad()
        torch.autograd.backward(_loss(objective, shape, free).sum())
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        return _unit(free).detach(), _loss(objective, shape, free)


def _polish(objective: Objective, shape: Shape, free: Tensor) -> Tensor:
    size = free.shape

    def loss(flat: Tensor) -> Tensor:
        return _loss(objective, shape, flat.reshape(size))

    gradient = torch.func.grad(loss)
    # Reverse mode twice: torch's forward mode warns of its own use of torch.jit.
    hessian = torch.func.jacrev(gradient)
    result = minimize(
        lambda x: float(loss(torch.from_numpy(x))),
        free.flatten().numpy(),
        jac=lambda x: gradient(torch.from_numpy(x)).numpy(),
        hess=lambda x: hessian(torch.from_numpy(x)).numpy(),
        method="trust-exact",
        options={"gtol": 1e-12, "maxiter": 200},
    )
    return torch.from_numpy(np.asarray(result.x)).reshape(size)
