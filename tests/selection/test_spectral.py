import warnings
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import batchcut as bc
from batchcut.selection._spectral import _eigenvector_rows, even_spectral_clusters

MakePairs = Callable[..., tuple[Any, Any]]


def affinity(make_pairs: MakePairs, count: int = 24) -> Any:
    u, v = make_pairs(count, clusters=4)
    return bc.selection.pair_weights(u, v, 6, 0.2)


def test_paper_takes_the_first_eigenvectors_of_the_laplacian(make_pairs: MakePairs) -> None:
    weights = affinity(make_pairs)
    rows = _eigenvector_rows(weights, 4, "paper", 0)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    vectors = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)[1][:, :4]
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(rows @ rows.T, expected @ expected.T, atol=1e-5)  # signs are free


def test_authors_take_the_normalised_laplacian_of_exp(make_pairs: MakePairs) -> None:
    weights = affinity(make_pairs)
    rows = _eigenvector_rows(weights, 4, "authors", 0)
    graph = np.exp(weights)
    np.fill_diagonal(graph, 0)
    root = np.sqrt(graph.sum(axis=1))
    laplacian = np.eye(len(graph)) - graph / root[:, None] / root[None, :]
    vectors = np.linalg.eigh(laplacian)[1][:, :4] / root[:, None]
    vectors *= np.linalg.norm(rows, axis=0) / np.linalg.norm(vectors, axis=0)
    np.testing.assert_allclose(np.abs(rows), np.abs(vectors), atol=1e-4 * np.abs(rows).max())


@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_clear_clusters_are_found(make_pairs: MakePairs, variant: Any) -> None:
    rng = np.random.default_rng(0)
    owner = rng.permutation(np.repeat(np.arange(4), 6))
    centers = np.linalg.qr(rng.standard_normal((8, 8)))[0][:4]
    u = centers[owner] + 0.05 * rng.standard_normal((24, 8))
    plan = bc.Spectral(variant=variant, temperature=0.2)(u, u + 0.01, batch_size=6)
    for batch in plan:
        assert len(set(owner[batch].tolist())) == 1


def test_matching_is_the_best_of_all(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).standard_normal((6, 2))
    monkeypatch.setattr("batchcut.selection._spectral._eigenvector_rows", lambda *_: rows)
    parts = even_spectral_clusters(np.zeros((6, 6)), np.array([2, 2, 2]), variant="paper", random_state=0)
    from sklearn.cluster import KMeans

    centers = KMeans(3, random_state=0).fit(rows).cluster_centers_
    cost = np.linalg.norm(rows[:, None] - centers[None], axis=2)
    best = min(sum(cost[i, k // 2] for k, i in enumerate(order)) for order in permutations(range(6)))
    assert sum(cost[part, k].sum() for k, part in enumerate(parts)) == pytest.approx(best)


@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_pools_are_clustered_apart(make_pairs: MakePairs, variant: Any) -> None:
    u, v = make_pairs(96, clusters=6)
    plan = bc.Spectral(variant=variant, pool=4)(u, v, batch_size=8, seed=2)
    random = bc.Shuffle()(u, v, batch_size=8, seed=2)
    for start in range(0, 12, 4):
        same = sorted(plan.batches[start : start + 4].ravel()), sorted(random.batches[start : start + 4].ravel())
        assert same[0] == same[1]
    assert plan.total_weight > random.total_weight


def test_margin_of_all_pairs_is_survived(make_pairs: MakePairs) -> None:
    u, v = make_pairs(12)
    for variant in ("paper", "authors"):
        plan = bc.Spectral(variant=variant, margin=3.0)(u, v, batch_size=4)
        assert plan.total_weight == 0
        assert plan.margin_pairs == 18


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="variant must be one of 'paper', 'authors'; got 'mine'"):
        bc.Spectral(variant="mine")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pool must be at least 2; got 1"):
        bc.Spectral(pool=1)


def test_the_last_pool_may_be_smaller(make_pairs: MakePairs) -> None:
    u, v = make_pairs(60)
    plan, random = (s(u, v, batch_size=6) for s in (bc.Spectral(pool=4), bc.Shuffle()))
    for rows in (slice(0, 4), slice(4, 8), slice(8, 10)):
        assert sorted(plan.batches[rows].ravel()) == sorted(random.batches[rows].ravel())


def test_eigenvectors_of_light_weights_are_found(make_pairs: MakePairs) -> None:
    u, v = make_pairs(96, 64, clusters=4)
    weights = bc.selection.pair_weights(u, v, 16, 0.005)
    assert weights.max() < 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # ARPACK warns where it gives up
        rows = _eigenvector_rows(weights, 6, "paper", 0)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
