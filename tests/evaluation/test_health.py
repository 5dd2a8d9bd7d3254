import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest

from batchcut.evaluation import health

Doubles = npt.NDArray[np.float64]


def unit(rows: Doubles) -> Doubles:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def spread(count: int = 200, dim: int = 16, seed: int = 0) -> Doubles:
    return unit(np.random.default_rng(seed).standard_normal((count, dim)))


def test_good_embeddings_give_no_warning() -> None:
    found = health(spread(), spread(seed=1))
    assert found.warnings == ()
    assert found.copies == 0
    assert found.directions > 12
    assert abs(found.alike) < 0.05


def test_alike_is_the_mean_over_different_samples() -> None:
    u = unit(spread(30) + 0.4)
    products = u @ u.T
    wanted = (products.sum() - np.trace(products)) / (30 * 29)
    assert health(u, spread(30)).alike == pytest.approx(wanted, abs=1e-6)


def test_directions_from_the_eigenvalues() -> None:
    u = spread() * np.linspace(0.2, 2, 16)
    values = np.linalg.eigvalsh(np.cov(unit(u).T))
    assert health(u, u).directions == pytest.approx(values.sum() ** 2 / np.square(values).sum(), rel=1e-4)


def test_more_directions_than_rows() -> None:
    u = spread(12, 40) * np.linspace(0.2, 2, 40)
    values = np.linalg.eigvalsh(np.cov(unit(u).T))
    assert health(u, u).directions == pytest.approx(values.sum() ** 2 / np.square(values).sum(), rel=1e-4)


def test_wide_embeddings_take_memory_for_themselves_alone() -> None:
    u = spread(20, 30_000).astype(np.float32)
    health(u[:, :4], u[:, :4])  # what is loaded once
    tracemalloc.start()
    try:
        health(u, u)
        assert tracemalloc.get_traced_memory()[1] < 20 * u.nbytes  # the covariance alone would take 3,000 times as much
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("side", [0, 1])
def test_a_collapse_of_either_side_is_told(side: int) -> None:
    sides = [spread(), spread(seed=1)]
    sides[side] = unit(np.ones((200, 16)) + 0.8 * spread(seed=2))
    (warning,) = health(*sides).warnings
    assert "look collapsed: two different samples have a mean cosine similarity of 0.9" in warning
    line = np.zeros((200, 16))
    line[:, 0] = np.where(np.arange(200) % 2, 1, -1)
    sides[side] = unit(line + 0.01 * spread(seed=3))
    (warning,) = health(*sides).warnings
    assert warning.startswith("the embeddings look collapsed: they fill 1.0")


def test_all_rows_the_same() -> None:
    same = np.full((20, 4), 0.5)
    found = health(same, same)
    assert (found.directions, found.copies) == (0, 19)
    assert len(found.warnings) == 2


def test_lengths_and_copies_are_told() -> None:
    u, v = spread(), spread(seed=1)
    u[5] *= 1.5
    u[7], v[7] = u[3], v[3]
    v[9] = v[3]  # one side alone is no copy of the pair
    found = health(u, v)
    assert [found.shortest, found.longest] == pytest.approx([1, 1.5])
    first, second = found.warnings
    assert first.startswith("the embeddings are not normalised (norms from 1 to 1.5)")
    assert second.startswith("1 pairs are exact copies of earlier ones")


def test_half_precision_is_normalised_enough() -> None:
    assert health(spread().astype(np.float16), spread(seed=1).astype(np.float16)).warnings == ()
