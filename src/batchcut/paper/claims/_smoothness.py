"""Bounds of the gradient and of its change, under attack."""

import itertools
from functools import partial

import torch
from torch import Tensor

from batchcut.losses.paper import ordered_loss, two_sided_loss
from batchcut.theory import all_batches, ordered, simplex_etf

from ._adversary import into_balls, into_box, largest, largest_curvature
from ._bounds import GRADIENT_BOUND, similarity_gradient_bound, similarity_smoothness, smoothness
from ._check import Measured, claim, states, worst

STARTS = 64
SIZES = (2, 3, 4, 8)
DIMENSIONS = (1, 2, 4)


def _similarity_starts(size: int) -> Tensor:
    """Random matrices, and the corners of the box for which the softmax is steepest or the positives are worst."""
    generator = torch.Generator().manual_seed(size)
    random = 4 * torch.rand(STARTS, size, size, dtype=torch.float64, generator=generator) - 2
    eye = torch.eye(size, dtype=torch.float64)
    cyclic = eye.roll(1, dims=0)
    corners = torch.stack([1 - 2 * eye, 2 * eye - 1, 2 * cyclic - 1, torch.zeros_like(eye), torch.ones_like(eye)])
    return torch.cat([random, corners])


def _embedding_starts(size: int, d: int) -> Tensor:
    """Random u, v: (starts, 2, B, d) in the balls, and those with v opposite to u, all together, and half and half."""
    generator = torch.Generator().manual_seed(100 * size + d)
    random = torch.randn(STARTS, 2, size, d, dtype=torch.float64, generator=generator)
    axis = torch.zeros(size, d, dtype=torch.float64)
    axis[:, 0] = 1
    halves = axis * torch.where(torch.arange(size) % 2 == 0, 1.0, -1.0)[:, None]
    special = [(axis, -axis), (axis, axis), (halves, -halves), (halves, halves), (axis, halves), (0 * axis, 0 * axis)]
    return torch.cat([random, torch.stack([torch.stack(pair) for pair in special])])


def _similarity_gradient(x: Tensor) -> Tensor:
    """∇L^M(X) = (P + Q - 2 I)/B, of X: (..., B, B)."""
    eye = torch.eye(x.shape[-1], dtype=x.dtype)
    return (x.softmax(dim=-1) + x.softmax(dim=-2) - 2 * eye) / x.shape[-1]


def _loss(pair: Tensor) -> Tensor:
    return two_sided_loss(pair[:, 0] @ pair[:, 1].mT)


def _gradient_norm(pair: Tensor) -> Tensor:
    u, v = pair[:, 0], pair[:, 1]
    slope = _similarity_gradient(u @ v.mT)
    norm: Tensor = torch.linalg.vector_norm(torch.stack([slope @ v, slope.mT @ u]), dim=(0, 2, 3))
    return norm


def _nearest_to_failing(found: dict[str, tuple[float, float]]) -> Measured:
    """From the largest value found and the bound of each setting."""
    rows = ((setting, f"largest {value:.4f}, bound {bound:.4f}") for setting, (value, bound) in found.items())
    return worst(value / bound for value, bound in found.values()), rows


@claim("lem:loss_M_is_lip_and_bdd")
@states("|X| ≤ 1: ‖∇L^M(X)‖ ≤ 2√(2/B) (largest found ÷ bound)", "<=", 1.0)
def similarity_gradient_is_bounded() -> Measured:
    """Ascent on the norm of the gradient, over the box of similarities."""

    def norm(x: Tensor) -> Tensor:
        length: Tensor = torch.linalg.matrix_norm(_similarity_gradient(x))
        return length

    return _nearest_to_failing(
        {
            f"B={size}": (largest(norm, _similarity_starts(size), into_box), similarity_gradient_bound(size))
            for size in SIZES
        }
    )


@claim("lem:loss_M_is_lip_and_bdd")
@states("|X| ≤ 1: ∇L^M is 2e²/B²-Lipschitz (largest found ÷ bound)", "<=", 1.0)
def similarity_gradient_is_lipschitz() -> Measured:
    """Ascent on the curvature, over the box of similarities."""
    return _nearest_to_failing(
        {
            f"B={size}": (
                largest_curvature(two_sided_loss, _similarity_starts(size), into_box),
                similarity_smoothness(size),
            )
            for size in SIZES
        }
    )


@claim("thm:bdd-of-grad")
@states("unit balls: the gradient of a batch's loss is at most 4 (largest found ÷ bound)", "<=", 1.0)
def gradient_is_bounded() -> Measured:
    """Ascent on the norm of the gradient, over the balls."""
    return _nearest_to_failing(
        {
            f"B={size} d={d}": (largest(_gradient_norm, _embedding_starts(size, d), into_balls), GRADIENT_BOUND)
            for size, d in itertools.product(SIZES, DIMENSIONS)
        }
    )


@claim("thm:lipschtiz-of-loss-grad")
@states("unit balls: the gradient of one batch's loss is ρ₀-Lipschitz (largest found ÷ bound)", "<=", 1.0)
def gradient_is_lipschitz() -> Measured:
    """Ascent on the curvature, over the balls."""
    return _nearest_to_failing(
        {
            f"B={size} d={d}": (largest_curvature(_loss, _embedding_starts(size, d), into_balls), smoothness(size))
            for size, d in itertools.product((2, 3, 6), (1, 3))
        }
    )


@claim("thm:lipschtiz-of-loss-grad")
@states(
    "as printed: the gradient of OSGD's objective is ρ₀-Lipschitz (ratio ÷ ρ₀, N=3 B=2 k=3 q=1)", "<=", 1.0, erratum=8
)
def ordered_gradient_as_printed() -> Measured:
    """Two points on both sides of a tie, ever nearer: the gradient jumps."""
    etf = simplex_etf(3, 2)
    generator = torch.Generator().manual_seed(0)
    away = torch.randn(2, 3, 2, dtype=torch.float64, generator=generator)
    away /= torch.linalg.vector_norm(away)
    ratios, detail = [], []
    for step in (1e-1, 1e-3, 1e-5):
        ends = [0.9 * torch.stack([etf, etf]) + sign * step * away for sign in (1, -1)]
        change = torch.linalg.vector_norm(_ordered_gradient(ends[0]) - _ordered_gradient(ends[1]))
        ratios.append(float(change) / (2 * step))
        detail.append((f"distance {2 * step:g}", f"gradients differ by {float(change):.4f}, ratio {ratios[-1]:.3g}"))
    return worst(ratios) / smoothness(2), detail


def _ordered_gradient(pair: Tensor) -> Tensor:
    pair = pair.requires_grad_()
    (gradient,) = torch.autograd.grad(ordered_loss(pair[0], pair[1], batch_size=2, k=3, q=1), pair)
    return gradient


@claim("thm:lipschtiz-of-loss-grad")
@states("corrected: OSGD's objective is ρ₀-weakly convex (rise above a chord ÷ ρ₀/8 length²)", "<=", 1.0)
def ordered_loss_is_weakly_convex() -> Measured:
    """What the convergence proof needs, and what is true: chords lie above the objective, up to ρ₀/8 · length²."""
    used = {}
    for n, k, q in [(3, 3, 1), (4, 4, 2), (4, 6, 1)]:
        generator = torch.Generator().manual_seed(n)
        chords = torch.randn(STARTS, 2, 2, n, 2, dtype=torch.float64, generator=generator)
        used[f"N={n} B=2 k={k} q={q}"] = largest(partial(_rise_above_chord, k, q), chords, into_balls)
    return worst(used.values()), ((setting, f"largest {value:.4f}") for setting, value in used.items())


def _rise_above_chord(k: int, q: int, ends: Tensor) -> Tensor:
    """How far the midpoint of ends: (starts, 2, 2, n, d) lies above their chord, as a share of ρ₀/8 length²."""
    of_products = ordered(all_batches(ends.shape[-2], 2), k=k, q=q)

    def objective(pair: Tensor) -> Tensor:
        return of_products(pair[:, 0] @ pair[:, 1].mT)

    first, second = ends[:, 0], ends[:, 1]
    rise = objective((first + second) / 2) - (objective(first) + objective(second)) / 2
    return rise / (smoothness(2) / 8 * (first - second).square().sum(dim=(1, 2, 3)) + 1e-12)
