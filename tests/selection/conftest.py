"""Random pairs for all tests of selection."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

Doubles = npt.NDArray[np.float64]
MakePairs = Callable[..., tuple[Doubles, Doubles]]


def _pairs(count: int, dim: int = 8, *, seed: int = 0, clusters: int = 0, copies: int = 0) -> tuple[Doubles, Doubles]:
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((count, dim))
    if clusters:
        u = 2 * rng.standard_normal((clusters, dim))[rng.integers(0, clusters, count)] + u
    v = u + 0.5 * rng.standard_normal((count, dim))
    u[:copies], v[:copies] = u[0], v[0]
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    return u, v


@pytest.fixture(scope="session")
def make_pairs() -> MakePairs:
    """Makes unit rows u, v (N, d) in float64; `copies` of the first sample, `clusters` if any."""
    return _pairs
