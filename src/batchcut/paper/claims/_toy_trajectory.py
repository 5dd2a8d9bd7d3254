"""The toy example: four points on the circle, steered by one angle each."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from batchcut._errors import check_integer, check_positive, invalid

Method = Literal["OSGD", "SGD", "all batches"]
METHODS: tuple[Method, ...] = ("OSGD", "SGD", "all batches")

PAIRS = np.array([(0, 1), (2, 3), (0, 3), (1, 2), (0, 2), (1, 3)])
"""The six batches. The product of a pair is SIGN · cos(θ_i + TURN · θ_j)."""
SIGN = np.array([1.0, 1.0, -1.0, -1.0, -1.0, -1.0])
TURN = np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0])

LIMIT = (math.e**2 - 1) / (3 * (math.e**2 + 1))
"""The step ratio OSGD : SGD of `coro:convergence_comparison`, 0.2539."""


def toy_embeddings(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """The points of θ: (4,) in the plane, (4, 2) (`subsec:toy_example`)."""
    signs = np.array([(1, 1), (1, -1), (-1, -1), (-1, 1)])
    points: NDArray[np.float64] = signs * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return points


def batch_losses(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """-2 + 2 log(e + e^x), with x the product of the pair, of each of the six batches; θ: (..., 4) to (..., 6)."""
    products, _ = _products(angles)
    return -2 + 2 * np.log(math.e + np.exp(products))


def batch_gradients(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """The gradient of each batch's loss by the angles, u and v moving together; θ: (..., 4) to (..., 6, 4)."""
    products, sines = _products(angles)
    slope = -2 / (1 + np.exp(1 - products)) * SIGN * sines
    gradients = np.zeros((*angles.shape[:-1], 6, 4))
    batch = np.arange(6)
    gradients[..., batch, PAIRS[:, 0]] = slope
    gradients[..., batch, PAIRS[:, 1]] = slope * TURN
    return gradients


def _products(angles: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    combined = angles[..., PAIRS[:, 0]] + TURN * angles[..., PAIRS[:, 1]]
    return SIGN * np.cos(combined), np.sin(combined)


def toy_trajectory(
    method: Method, *, learning_rate: float, epsilon: float, replicates: int = 1, seed: int = 0
) -> Iterator[NDArray[np.float64]]:
    """The angles θ: (replicates, 4) before each step, starting from ε, without end."""
    if method not in METHODS:
        raise invalid("method", "be 'OSGD', 'SGD' or 'all batches'", repr(method))
    rate = check_positive("learning_rate", learning_rate)
    start = np.full((check_integer("replicates", replicates, at_least=1), 4), check_positive("epsilon", epsilon))
    return _descend(method, rate, start, np.random.default_rng(check_integer("seed", seed, at_least=0)))


def _descend(
    method: Method, rate: float, angles: NDArray[np.float64], random: np.random.Generator
) -> Iterator[NDArray[np.float64]]:
    everyone = np.arange(len(angles))
    while True:
        yield angles
        gradients = batch_gradients(angles)
        if method == "OSGD":
            step = gradients[everyone, batch_losses(angles).argmax(axis=1)]
        elif method == "SGD":
            step = gradients[everyone, random.integers(6, size=len(angles))]
        else:
            step = gradients.mean(axis=1)
        angles = angles - rate * step


def toy_steps(
    method: Method,
    *,
    learning_rate: float,
    epsilon: float,
    margin: float = 0.05,
    replicates: int = 1,
    seed: int = 0,
    most_steps: int = 10**6,
) -> int | None:
    """The first step T at which the mean of θ over the replicates lies in (π/4 - margin, π/4) (`thm:Toy-example`).

    None if that does not happen within `most_steps`.
    """
    margin = check_positive("margin", margin)
    trajectory = toy_trajectory(method, learning_rate=learning_rate, epsilon=epsilon, replicates=replicates, seed=seed)
    for step, angles in zip(range(most_steps + 1), trajectory, strict=False):
        mean = angles.mean(axis=0)
        if mean.min() > math.pi / 4 - margin and mean.max() < math.pi / 4:
            return step
    return None


@dataclass(frozen=True, kw_only=True)
class ToyBounds:
    """Lower bounds on the steps of OSGD and SGD."""

    osgd: float
    sgd: float


def leading_bounds(*, learning_rate: float, epsilon: float, margin: float) -> ToyBounds:
    """The bounds of `thm:Toy-example` without their O(·) terms."""
    osgd = (math.pi / 4 - margin - epsilon) / (learning_rate * epsilon)
    return ToyBounds(osgd=osgd, sgd=osgd / LIMIT)


def log_bounds(*, learning_rate: float, epsilon: float, margin: float) -> ToyBounds:
    """The bounds of the remark after `theorem 9`, which need no upper bound on the steps, without their O(·) terms."""
    c = lipschitz_constant()
    c_tilde = mixing_constant(c)
    far = math.pi / 4 - margin
    osgd = 2 / math.log1p(2 * learning_rate) * math.log(far / epsilon)
    sgd = math.log((far - (1 - c_tilde) * epsilon) / (c_tilde * epsilon)) / math.log1p(2 * (1 + c) * learning_rate / 3)
    return ToyBounds(osgd=osgd, sgd=sgd)


def lipschitz_constant() -> float:
    """C, the largest slope of 2 sin x / (1 + e^(1 + cos x)) on [0, π/2]; the paper rounds it to 0.436."""
    x = np.linspace(0, math.pi / 2, 100_001)
    power = np.exp(1 + np.cos(x))
    slope = 2 * (np.cos(x) * (1 + power) + np.sin(x) ** 2 * power) / (1 + power) ** 2
    return float(slope.max())


def mixing_constant(c: float) -> float:
    """C̃ = (e² - 1) / (2 (C + 1) (e² + 1)); the paper rounds it to 0.265."""
    return (math.e**2 - 1) / (2 * (c + 1) * (math.e**2 + 1))
