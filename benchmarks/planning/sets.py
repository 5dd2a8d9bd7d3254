"""The sets S1 to S5 on which selectors are compared: unit embeddings of positive pairs, made from a seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True)
class PairSet:
    """Embeddings u, v (N, d) with the batch size and temperature they are compared at."""

    name: str
    about: str
    u: Floats
    v: Floats
    batch_size: int
    temperature: float


def gaussians(count: int, *, dim: int = 128, clusters: int = 1000, seed: int = 1) -> tuple[Floats, Floats]:
    """Pairs from a mixture of equal Gaussians: cosine about 0.77 to the positive, 0.385 within a cluster."""
    rng = np.random.default_rng(seed)
    centers = _unit(rng.standard_normal((clusters, dim), np.float32))
    return _two_views(centers[rng.integers(0, clusters, count)], rng, spread=1.0, noise=0.55)


def heavy_tailed(count: int, *, dim: int = 128, seed: int = 2) -> tuple[Floats, Floats]:
    """Pairs from a two-level mixture with Pareto sizes: few large clusters, many small ones.

    Themes are centers at random; topics are drawn around themes, samples around topics. Of 20 samples there is one
    topic, of 20 topics one theme; how often a theme and a topic is chosen has a Pareto tail of index 1.2.
    """
    u, v = np.empty((2, count, dim), np.float32)
    start = 0
    for some_u, some_v in heavy_tailed_blocks(count, dim=dim, seed=seed):
        stop = start + len(some_u)
        u[start:stop], v[start:stop], start = some_u, some_v, stop
    return u, v


def heavy_tailed_blocks(count: int, *, dim: int = 128, seed: int = 2) -> Iterator[tuple[Floats, Floats]]:
    """The pairs of `heavy_tailed`, some at a time: for sets that are larger than memory."""
    rng = np.random.default_rng(seed)
    topics = max(2, count // 20)
    themes = max(2, topics // 20)
    theme_centers = _unit(rng.standard_normal((themes, dim), np.float32))
    theme_of = rng.choice(themes, topics, p=_shares(rng, themes))
    topic_centers = _unit(theme_centers[theme_of] + 0.9 * _unit(rng.standard_normal((topics, dim), np.float32)))
    topic_of = rng.choice(topics, count, p=_shares(rng, topics))
    for start in range(0, count, _ROWS_AT_ONCE):
        rows = topic_centers[topic_of[start : start + _ROWS_AT_ONCE]]
        yield _two_views(rows, rng, spread=0.7, noise=0.45)


def _shares(rng: np.random.Generator, count: int) -> npt.NDArray[Any]:
    sizes = 1 + rng.pareto(1.2, count)
    return np.asarray(sizes / sizes.sum())


def _two_views(x: Floats, rng: np.random.Generator, *, spread: float, noise: float) -> tuple[Floats, Floats]:
    u, v = np.empty_like(x), np.empty_like(x)
    root = np.float32(np.sqrt(x.shape[1]))
    for start in range(0, len(x), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        base = _unit(x[rows] + np.float32(spread) / root * rng.standard_normal(x[rows].shape, np.float32))
        for side in (u, v):
            side[rows] = _unit(base + np.float32(noise) / root * rng.standard_normal(base.shape, np.float32))
    return u, v


def _unit(x: Floats) -> Floats:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)


def make(name: str) -> PairSet:
    """One of the sets S1, S2, S3, S5, or S5/4, a quarter of it."""
    if name == "S1":
        u, v = gaussians(51_200)
        return PairSet(name, "51,200 pairs, mixture of 1,000 Gaussians", u, v, 32, 0.1)
    if name in ("S2", "S3"):
        count = 20_480 if name == "S2" else 131_072
        u, v = heavy_tailed(count)
        return PairSet(name, f"{count:,} pairs, heavy-tailed two-level mixture", u, v, 64, 0.05)
    if name in ("S5", "S5/4"):
        count = 1_048_576 // (4 if name == "S5/4" else 1)
        u, v = heavy_tailed(count)
        return PairSet(name, f"{count:,} pairs, heavy-tailed two-level mixture", u, v, 256, 0.05)
    raise ValueError(f"name must be one of S1, S2, S3, S5, S5/4; got {name}")
