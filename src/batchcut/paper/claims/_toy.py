"""The toy example, measured."""

import itertools
import math
from collections.abc import Callable, Sequence

import torch

from batchcut.losses.paper import contrastive_loss
from batchcut.theory import optimal_loss

from ._check import Measured, claim, least, states
from ._toy_trajectory import (
    LIMIT,
    METHODS,
    Method,
    ToyBounds,
    leading_bounds,
    lipschitz_constant,
    log_bounds,
    mixing_constant,
    toy_embeddings,
    toy_steps,
    toy_trajectory,
)

REPLICATES = 400
MANY_REPLICATES = 2000
MARGIN = 0.05


def _steps(method: Method, learning_rate: float, epsilon: float, replicates: int = REPLICATES) -> int:
    """Steps to the optimum; a large number where it is not reached, so that no claim passes by a missing value."""
    replicates = replicates if method == "SGD" else 1
    found = toy_steps(
        method,
        learning_rate=learning_rate,
        epsilon=epsilon,
        margin=MARGIN,
        replicates=replicates,
        most_steps=int(200 / learning_rate),
    )
    return 10**9 if found is None else found


def _growth_ratio(against: Method, rate: float, starts: list[float]) -> Measured:
    """OSGD's further steps from the second to the last ε, over those of another method."""
    ordered = [_steps("OSGD", rate, start) for start in starts]
    others = [_steps(against, rate, start, MANY_REPLICATES) for start in starts]
    return (ordered[-1] - ordered[1]) / (others[-1] - others[1]), (
        (f"η={rate} ε={start:g}", f"OSGD {x}, {against} {y} steps, ratio {x / y:.4f}")
        for start, x, y in zip(starts, ordered, others, strict=True)
    )


@claim("coro:convergence_comparison")
@states(
    "OSGD's steps ÷ SGD's tend to (e²-1)/(3(e²+1)) as η, ε shrink: ratio of the growth with 1/ε",
    "=",
    lambda: LIMIT,
    tolerance=0.015,  # over seeds the ratio spreads by 0.002, and a finite learning rate shifts it by 0.005
)
def step_ratio() -> Measured:
    """The ratio of the further steps that a smaller ε costs, for a small learning rate and real SGD runs."""
    return _growth_ratio("SGD", 0.01, [1e-1, 1e-2, 1e-4])


@claim("coro:convergence_comparison")
@states("the same along SGD's mean drift, its limit for η → 0", "=", lambda: LIMIT, tolerance=0.001)
def step_ratio_in_the_limit() -> Measured:
    """The same with SGD's mean drift in place of random batches, which is its limit for small η, to a smaller ε."""
    return _growth_ratio("all batches", 0.002, [1e-1, 1e-2, 1e-7])


@claim("coro:convergence_comparison")
@states(
    "limits exchanged, η fixed and ε → 0: the mean of SGD's angles comes within 0.05 of π/4",
    ">",
    math.pi / 4 - MARGIN,
    erratum=12,
)
def step_ratio_at_fixed_rate() -> Measured:
    """For a fixed η and ε → 0, part of the SGD runs end at the polytope with two corners exchanged."""
    rate, start = 0.05, 1e-6
    steps = int(200 / rate)
    trajectory = toy_trajectory("SGD", learning_rate=rate, epsilon=start, replicates=REPLICATES)
    angles = next(angles for step, angles in enumerate(trajectory) if step == steps)
    elsewhere = float((angles.min(axis=1) < 0).mean())
    return float(angles.mean(axis=0).min()), [
        (f"η={rate} ε={start:g}, {steps} steps", f"{elsewhere:.1%} of the runs end at another cross-polytope")
    ]


def _against_bounds(
    bounds_of: Callable[..., ToyBounds], rates: Sequence[float], starts: Sequence[float], text: str
) -> Measured:
    """Measured steps ÷ their bounds, the least of all; `text` has places for OSGD's and SGD's steps and bounds."""
    quotients, detail = [], []
    for rate, start in itertools.product(rates, starts):
        bounds = bounds_of(learning_rate=rate, epsilon=start, margin=MARGIN)
        ordered, random = _steps("OSGD", rate, start), _steps("SGD", rate, start)
        quotients += [ordered / bounds.osgd, random / bounds.sgd]
        detail.append((f"η={rate} ε={start:g}", text.format(ordered, bounds.osgd, random, bounds.sgd)))
    return least(quotients), detail


@claim("thm:Toy-example")
@states(
    "leading terms of the bounds: steps ≥ (π/4-ρ-ε)/(ηε), SGD 1/0.2539 times that (steps ÷ bound)",
    ">=",
    1.0,
    erratum=12,
)
def leading_terms() -> Measured:
    """The leading terms of the two bounds, against measured steps."""
    return _against_bounds(leading_bounds, [0.01], [0.3, 0.1, 0.01], "OSGD {} ≥ {:.0f}? SGD {} ≥ {:.0f}?")


@claim("theorem 9")
@states("remark: the logarithmic lower bounds on the steps of OSGD and SGD (steps ÷ bound)", ">=", 1.0)
def log_form() -> Measured:
    """The bounds of the remark, against measured steps."""
    return _against_bounds(log_bounds, [0.05, 0.01], [0.1, 0.01, 0.001], "OSGD {} ≥ {:.0f}, SGD {} ≥ {:.0f}")


@claim("theorem 9")
@states("remark: C ≈ 0.436 and C̃ ≈ 0.265 (largest deviation)", "<=", 0.0005)
def constants() -> Measured:
    """C and C̃ as the remark rounds them."""
    c = lipschitz_constant()
    c_tilde = mixing_constant(c)
    return max(abs(c - 0.436), abs(c_tilde - 0.265)), [("C", f"{c:.6f}"), ("C̃", f"{c_tilde:.6f}")]


@claim("fig:toy_example")
@states("OSGD, SGD and descent on all batches end at the loss 1.253 (largest deviation)", "<=", 0.0005)
def final_loss() -> Measured:
    """All three methods end at the loss of the cross-polytope."""
    ends = {}
    for method in METHODS:
        trajectory = toy_trajectory(method, learning_rate=0.005, epsilon=0.1)
        angles = next(angles for step, angles in enumerate(trajectory) if step == 6000)
        points = torch.from_numpy(toy_embeddings(angles[0]))
        ends[method] = float(contrastive_loss(points, points))
    return max(abs(end - optimal_loss(4, 2)) for end in ends.values()), (
        (method, f"{end:.5f}") for method, end in ends.items()
    )
