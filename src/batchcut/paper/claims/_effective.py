"""Our own claims about the effective batch size, which the paper does not make; see docs/effective-size.md."""

import math
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from batchcut.selection import EffectiveSize, Shuffle, effective_batch_size, gradient_table
from batchcut.theory import all_batches

from ._check import OURS, Measured, claim, least, states, worst

Points = tuple[NDArray[np.float64], NDArray[np.float64]]

TEMPERATURES = (0.05, 0.2, 1.0)
SEEDS = 12
RANDOM_SIZES = (5, 20, 80)
FALLING = ([15, 1, 0, 13], [19, 20, 20, 19])
"""Four pairs in the plane by their angles in units of 15°, of which batches of two keep more than the full batch."""


def _points(n: int, d: int, *, seed: int = 0) -> Points:
    """Pairs whose sides are alike, in three clusters."""
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((3, d))[rng.integers(0, 3, n)] + rng.standard_normal((n, d))
    v = u + 0.5 * rng.standard_normal((n, d))
    return u / np.linalg.norm(u, axis=1, keepdims=True), v / np.linalg.norm(v, axis=1, keepdims=True)


@claim(OURS)
@states("the full batch has an effective size of N, from some anchors and from all (relative difference)", "<=", 1e-3)
def full_batch_gives_all() -> Measured:
    """For several numbers of anchors and temperatures."""
    found = {}
    for n, anchors in [(8, 8), (50, 25), (300, 300)]:
        for tau in TEMPERATURES:
            size = effective_batch_size(
                *_points(n, 4), np.arange(n)[None], temperature=tau, anchors=anchors, threads=1
            ).size
            found[f"N={n} τ={tau}, {anchors} anchors"] = abs(size / n - 1)
    return worst(found.values()), ((setting, f"off by {value:.1e}") for setting, value in found.items())


@claim(OURS)
@states("random batches of size B have an effective size of B on average (largest |log ratio|)", "<=", 0.1)
def random_batches_give_theirs() -> Measured:
    """The mean over random partitions of 400 samples, all of them anchors."""
    found = {}
    for size in RANDOM_SIZES:
        ratios = []
        for seed in range(SEEDS):
            u, v = _points(400, 6, seed=seed)
            plan = Shuffle(temperature=0.1)(u, v, batch_size=size, seed=seed)
            measured = effective_batch_size(u, v, plan, temperature=0.1, anchors=400, seed=seed, threads=1)
            ratios.append(math.log(measured.size / size))
        found[size] = float(np.mean(ratios))
    return worst(abs(value) for value in found.values()), (
        (f"B={size}", f"{size * math.exp(value):.2f}, mean over {SEEDS} seeds") for size, value in found.items()
    )


@claim(OURS)
@states("the stated interval holds the size by all anchors (share of 100 draws of anchors)", ">=", 0.88)
def interval_covers() -> Measured:
    """Batches of neighbours on a line through the first coordinate, 100 draws of 80 of 600 anchors."""
    u, v = _points(600, 6)
    batches = np.argsort(u[:, 0]).reshape(-1, 10)

    def measured(anchors: int, seed: int) -> EffectiveSize:
        return effective_batch_size(u, v, batches, temperature=0.1, anchors=anchors, seed=seed, threads=1)

    whole = measured(600, 0).size
    draws = [measured(80, seed) for seed in range(100)]
    return float(np.mean([one.low <= whole <= one.high for one in draws])), [
        ("all 600 anchors", f"{whole:.1f}"),
        ("80 anchors", f"{np.mean([one.size for one in draws]):.1f} on average"),
    ]


@claim(OURS)
@states(
    "f(b) is the share of the full-batch gradient in that of the mean loss over all C(N,b) batches (difference)",
    "<=",
    1e-5,
)
def curve_is_that_of_all_batches() -> Measured:
    """By autograd through an affine layer on each side, for the losses of `thm:NcB-reaches-etf`."""
    found = {}
    for tau in TEMPERATURES:
        u, v = _points(6, 3)
        table = gradient_table(u, v, temperature=tau)
        whole = _layer_gradient(u, v, 6, tau)
        for size in range(2, 7):
            kept = float(_layer_gradient(u, v, size, tau) @ whole / whole.square().sum())
            found[f"N=6 b={size} τ={tau}"] = abs(kept - table.kept(np.array(all_batches(6, size))))
    return worst(found.values()), ((setting, f"difference {value:.1e}") for setting, value in found.items())


def _layer_gradient(u: NDArray[np.float64], v: NDArray[np.float64], size: int, tau: float) -> Tensor:
    """The gradient of an affine layer on each side, of the mean loss over all batches of a size; candidates fixed."""
    sides = torch.from_numpy(np.stack([u, v]))
    batches = torch.tensor(all_batches(len(u), size))
    layers = [torch.eye(u.shape[1], dtype=torch.float64).repeat(2, 1, 1), torch.zeros(2, 1, u.shape[1]).double()]
    weight, bias = (layer.requires_grad_() for layer in layers)
    anchors = normalize(sides @ weight.mT + bias, dim=2)[:, batches]
    scores = anchors @ sides.flip(0)[:, batches].mT / tau
    loss = -scores.log_softmax(dim=3).diagonal(dim1=2, dim2=3).mean()
    return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, (weight, bias))])


@claim(OURS)
@states("the mean mass of an anchor's negatives grows with the batch size (least growth)", ">", 0.0)
def mass_of_negatives_grows() -> Measured:
    """Of each anchor, over all batches of each size."""
    masses = _masses_by_size()
    growths = [float((more - less).min()) for less, more in pairwise(masses)]
    return least(growths), ((f"N=7 b={b} to {b + 1}", f"{growth:.1e}") for b, growth in enumerate(growths, 1))


@claim(OURS)
@states("and ever less so (largest growth of the growth)", "<=", 0.0, tolerance=1e-12)
def mass_of_negatives_is_concave() -> Measured:
    """It is a concave function of a sum, so that each further negative adds less."""
    masses = _masses_by_size()
    growths = [more - less for less, more in pairwise(masses)]
    bends = [float((later - earlier).max()) for earlier, later in pairwise(growths)]
    return worst(bends), ((f"N=7 b={b}", f"{bend:.1e}") for b, bend in enumerate(bends, 2))


def _masses_by_size() -> list[NDArray[np.float64]]:
    u, v = _points(7, 3)
    scores = gradient_table(u, v, temperature=0.3).scores
    alone = np.zeros((2, 7))
    return [alone, *(_mass_of_negatives(scores, np.array(all_batches(7, size))) for size in range(2, 8))]


def _mass_of_negatives(scores: NDArray[np.float64], batches: NDArray[np.int64]) -> NDArray[np.float64]:
    """(2, N) the softmax mass of all but the own positive, the mean over the batches of each anchor."""
    masses = np.exp(scores)[:, batches[:, :, None], batches[:, None, :]]
    own = masses.diagonal(axis1=2, axis2=3)
    negatives = 1 - own / masses.sum(axis=3)
    times = np.bincount(batches.ravel())
    return np.stack([np.bincount(batches.ravel(), side.ravel()) / times for side in negatives])


@claim(OURS)
@states(
    "f itself need not grow: four pairs of which smaller batches keep more than the full batch (most kept)", ">", 1.0
)
def curve_may_fall() -> Measured:
    """Four pairs in the plane, found by trying many at random."""
    u, v = (np.stack([np.cos(a), np.sin(a)], axis=1) for a in np.radians(15.0) * np.array(FALLING))
    table = gradient_table(u, v, temperature=0.1)
    kept = {size: table.kept(np.array(all_batches(4, size))) for size in (2, 3, 4)}
    return max(kept[2], kept[3]), ((f"N=4 d=2 b={size}", f"keeps {value:.4f}") for size, value in kept.items())
