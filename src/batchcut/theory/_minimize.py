"""The best configuration that many starts find, polished by a second-order method."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from batchcut._errors import check_integer, invalid

from ._objectives import Objective

Shape = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Makes embeddings u, v: (..., n, d) out of free parameters, so that a restriction holds by construction."""

FIRST_ORDER_STEPS = 300
SECOND_ORDER_STEPS = 100
SMALL_GRADIENT = 1e-11
"""The best point is polished until its gradient is below this."""
SMALL_GAIN = 1e-13
"""A start has arrived where a Newton step promises to lower its loss by less than this."""
SAME_LOSS = 1e-9
"""A start that ends within this of the minimum has found it."""
FLAT = 1e-7
"""An eigenvalue of the Hessian below this is taken for zero."""


@dataclass(frozen=True, kw_only=True)
class Minimum:
    """The lowest point that a search found.

    Attributes:
        u: (n, d) unit rows.
        v: (n, d) unit rows.
        loss: the objective there.
        gradient: norm of the gradient there, along the sphere.
        curvature: the lowest eigenvalue of the Hessian there, along the spheres and across rotations of the whole.
            Above 0: a strict local minimum up to rotation; about 0: the second order does not decide.
        reached: the share of the starts that ended at this loss.
    """

    u: Tensor
    v: Tensor
    loss: float
    gradient: float
    curvature: float
    reached: float


def minimize(
    objective: Objective, n: int, d: int, *, starts: int = 32, seed: int = 0, restriction: str = "none"
) -> Minimum:
    """Minimises an objective over n unit pairs in d dimensions.

    All starts descend at once, by Adam with a falling step length and then by a damped Newton method with the exact
    Hessian, to a gradient of about 1e-11. The result is the lowest minimum found; that none is lower is no more than
    likely, and the more so the larger the share of the starts that reached it.

    Args:
        objective: a function of the inner products.
        n: the number of pairs.
        d: the dimension. In one dimension unit vectors are ±1 and each start stays as it is.
        starts: how many random starts.
        seed: of the starts.
        restriction: "none"; "symmetric" (U = V); or "antipodal" (U = V and each row's negative is a row, n even).
    """
    n = check_integer("n", n, at_least=2)
    d = check_integer("d", d, at_least=1)
    starts = check_integer("starts", starts, at_least=1)
    if restriction not in _RESTRICTIONS:
        raise invalid("restriction", f"be one of {', '.join(_RESTRICTIONS)}", repr(restriction))
    if restriction == "antipodal" and n % 2:
        raise invalid("n", "be even for antipodal configurations", n)
    rows, shape = _RESTRICTIONS[restriction](n)
    generator = torch.Generator().manual_seed(seed)
    free = torch.randn(starts, rows, d, dtype=torch.float64, generator=generator)
    free, losses = _polish_all(objective, shape, _descend_all(objective, shape, free))
    best = _polish_all(objective, shape, free[losses.argmin()][None], gain=0.0)[0][0]
    loss, gradient = _value_and_gradient(objective, shape, best)
    u, v = shape(best)
    return Minimum(
        u=u,
        v=v,
        loss=loss,
        gradient=gradient,
        curvature=_curvature(objective, shape, best),
        reached=float((losses < loss + SAME_LOSS).double().mean()),
    )


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


def _descend_all(objective: Objective, shape: Shape, free: Tensor) -> Tensor:
    free = free.requires_grad_()
    optimizer = torch.optim.Adam([free], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, FIRST_ORDER_STEPS, eta_min=1e-4)
    for _ in range(FIRST_ORDER_STEPS):
        optimizer.zero_grad()
        torch.autograd.backward(_loss(objective, shape, free).sum())
        optimizer.step()
        schedule.step()
    return _unit(free.detach())


def _polish_all(objective: Objective, shape: Shape, free: Tensor, *, gain: float = SMALL_GAIN) -> tuple[Tensor, Tensor]:
    """Newton's method for all starts: unit rows (starts, rows, d) and their losses.

    A step divides by |eigenvalue| + damping, so that it leaves saddle points; a start's damping falls after a step
    that lowers the loss, and rises after one that does not, which is taken back.
    """
    free = free.clone()
    losses = _loss(objective, shape, free)
    damping = torch.full_like(losses, 1e-3)
    going = torch.arange(len(free))
    for _ in range(SECOND_ORDER_STEPS):
        here = free[going]
        gradient, hessian = _derivatives(objective, shape, here)
        values, vectors = torch.linalg.eigh(hessian)
        # Along a change of length or a rotation of the whole the loss is constant; the floor keeps rounding out.
        values = values.abs().clamp(min=FLAT)
        along = (vectors.mT @ gradient[..., None])[..., 0]
        far = (torch.linalg.vector_norm(gradient, dim=-1) > SMALL_GRADIENT) & ((along**2 / values).sum(dim=-1) > gain)
        if not bool(far.any()):
            break
        going, here, values, vectors, along = going[far], here[far], values[far], vectors[far], along[far]
        step = (vectors @ (along / (values + damping[going, None]))[..., None])[..., 0]
        there = _unit(here - step.reshape(here.shape))
        after = _loss(objective, shape, there)
        better = after <= losses[going] + 1e-15
        free[going[better]], losses[going[better]] = there[better], after[better]
        damping[going] = torch.where(better, damping[going] / 8, damping[going] * 4).clamp(min=1e-12)
    return free, losses


def _derivatives(objective: Objective, shape: Shape, free: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients (starts, m) and Hessians (starts, m, m), of the loss at free: (starts, rows, d), m = rows · d."""
    size = free.shape[1:]

    def loss(flat: Tensor) -> Tensor:
        return _loss(objective, shape, flat.reshape(size))

    flat = free.flatten(1)
    # Backward twice: the forward mode of torch.func.hessian makes torch warn of its own deprecated parts.
    hessian: Tensor = torch.func.vmap(torch.func.jacrev(torch.func.grad(loss)), chunk_size=32)(flat)
    gradient: Tensor = torch.func.vmap(torch.func.grad(loss))(flat)
    return gradient, hessian


def _curvature(objective: Objective, shape: Shape, free: Tensor) -> float:
    """The lowest eigenvalue of the Hessian across the directions in which the loss is constant by its symmetry."""
    _, hessian = _derivatives(objective, shape, free[None])
    rows, d = free.shape
    lengths = torch.block_diag(*free.unsqueeze(1))
    generators = torch.eye(d * d, dtype=free.dtype).reshape(d, d, d, d)
    first, second = torch.triu_indices(d, d, 1)
    turns = generators[first, second] - generators[second, first]
    constant = torch.cat([lengths, (free @ turns).reshape(-1, rows * d)])
    left, values, _ = torch.linalg.svd(constant.T)
    across = left[:, int((values > FLAT).sum()) :]
    return float(torch.linalg.eigvalsh(across.T @ hessian[0] @ across).min()) if across.shape[1] else 0.0
