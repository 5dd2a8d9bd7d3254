"""Search for the point at which a bound is nearest to failing."""

from collections.abc import Callable

import torch
from torch import Tensor

STEPS = 200

Projection = Callable[[Tensor], Tensor]


def into_balls(x: Tensor) -> Tensor:
    """Brings rows into the unit ball."""
    lengths: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / lengths.clamp(min=1)


def into_box(x: Tensor) -> Tensor:
    """Brings entries into [-1, 1]."""
    return x.clamp(-1, 1)


def largest(function: Callable[[Tensor], Tensor], start: Tensor, project: Projection) -> float:
    """The largest value that projected gradient ascent finds; start: (starts, ...), function: to (starts,).

    The starts climb at once, by Adam, with a falling step length.
    """
    point = project(start.double()).requires_grad_()
    optimizer = torch.optim.Adam([point], lr=0.1, maximize=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS, eta_min=1e-3)
    best = -torch.inf
    for _ in range(STEPS):
        optimizer.zero_grad()
        values = function(point)
        best = max(best, float(values.detach().max()))
        torch.autograd.backward(values.sum())
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            point.copy_(project(point))
    return best


def largest_curvature(function: Callable[[Tensor], Tensor], start: Tensor, project: Projection) -> float:
    """The largest |zᵀ H z| over points and unit directions z: on a convex set, the gradient's Lipschitz constant.

    The direction is sought along with the point.
    """
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(start.shape, dtype=torch.float64, generator=generator)
    within = tuple(range(1, start.ndim))

    def curvature(pair: Tensor) -> Tensor:
        point, along = pair
        length: Tensor = torch.linalg.vector_norm(along, dim=within, keepdim=True)
        along = along / length
        (slope,) = torch.autograd.grad(function(point).sum(), point, create_graph=True)
        (change,) = torch.autograd.grad((slope * along).sum(), point, create_graph=True)
        bend: Tensor = (change * along).sum(dim=within)
        return bend.abs()

    def project_point(pair: Tensor) -> Tensor:
        return torch.stack([project(pair[0]), pair[1]])

    return largest(curvature, torch.stack([start.double(), direction]), project_point)
