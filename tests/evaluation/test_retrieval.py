from dataclasses import astuple

import numpy as np
import numpy.typing as npt
import pytest
import torch

from batchcut.evaluation import Ranks, retrieval

Doubles = npt.NDArray[np.float64]


def slow_ranks(u: Doubles, v: Doubles) -> list[float]:
    """The mean place of v_i among all rows of v, over both orders of what is as similar."""
    u, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (u, v))
    ranks = []
    for i in range(len(u)):
        similarity = [float(u[i] @ row) for row in v]
        others = [s for j, s in enumerate(similarity) if j != i]
        best = sum(s > similarity[i] + 2e-6 for s in others)
        worst = sum(s >= similarity[i] - 2e-6 for s in others)
        ranks.append(1 + (best + worst) / 2)
    return ranks


def slow(u: Doubles, v: Doubles) -> Ranks:
    ranks = np.array(slow_ranks(u, v))
    shares = [sum(r <= k for r in ranks) / len(ranks) for k in (1, 5, 10)]
    reciprocal = sum(1 / r for r in ranks) / len(ranks)
    names = ("top1", "top5", "top10", "mrr", "mean_rank", "median_rank")
    values = (*shares, reciprocal, float(ranks.mean()), float(np.median(ranks)))
    return Ranks(**dict(zip(names, values, strict=True)))


def noisy_pairs(count: int, dim: int, *, copies: int = 0, seed: int = 0) -> tuple[Doubles, Doubles]:
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((count, dim))
    v = 3 * (u + rng.standard_normal((count, dim)))
    v[:copies] = v[0]
    return u, v


@pytest.mark.parametrize(("count", "dim", "copies"), [(2, 3, 0), (37, 4, 0), (37, 4, 9), (20, 2, 20)])
@pytest.mark.parametrize("tile", [1, 5, 16, 1024])
def test_against_the_slow_way(count: int, dim: int, copies: int, tile: int) -> None:
    u, v = noisy_pairs(count, dim, copies=copies)
    found = retrieval(u, v, tile=tile)
    assert found.count == count
    np.testing.assert_allclose(astuple(found.u_to_v), astuple(slow(u, v)), rtol=1e-12)
    np.testing.assert_allclose(astuple(found.v_to_u), astuple(slow(v, u)), rtol=1e-12)


def test_the_headline_is_the_mean_of_both_ways() -> None:
    u, v = noisy_pairs(60, 4)
    found = retrieval(u, v)
    for name in ("top1", "top5", "top10", "mrr", "mean_rank", "median_rank"):
        both = (getattr(found.u_to_v, name) + getattr(found.v_to_u, name)) / 2
        assert getattr(found, name) == both
        assert found.as_dict()[name] == both
    assert found.u_to_v.top1 != found.v_to_u.top1


def test_equal_embeddings_have_the_middle_rank() -> None:
    same = np.ones((11, 3))
    found = retrieval(same, same)
    assert (found.top1, found.mean_rank, found.median_rank) == (0, 6, 6)


def test_an_exact_copy_of_the_partner_costs_the_first_rank_also_in_other_tiles() -> None:
    u = np.eye(8)
    v = np.eye(8)
    v[7] = v[0]
    for tile in (1, 3, 8):
        assert retrieval(u, v, tile=tile).u_to_v.top1 == 6 / 8


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_perfect_match(kind: type) -> None:
    u = np.eye(12, dtype=kind) * kind(1e-3)
    found = retrieval(u, torch.from_numpy(u).requires_grad_())
    assert (found.top1, found.top10, found.mrr, found.mean_rank) == (1, 1, 1, 1)


def test_half_precision_tensors() -> None:
    u, v = (torch.from_numpy(x) for x in noisy_pairs(30, 8))
    assert retrieval(u.bfloat16(), v.bfloat16()).count == 30


@pytest.mark.parametrize(
    ("u", "v", "tile", "error", "text"),
    [
        (np.ones(3), np.ones((3, 2)), 8, ValueError, r"u must have two dimensions .*; got shape \(3,\)"),
        (np.ones((3, 2)), np.ones((3, 1)), 8, ValueError, r"v must have the shape of u, \(3, 2\); got \(3, 1\)"),
        (np.ones((3, 2)), np.ones((3, 2), int), 8, TypeError, "v must hold floating-point numbers; got int64"),
        (np.ones((3, 2)), np.full((3, 2), np.nan), 8, ValueError, "v must hold finite numbers; got nan in row 0"),
        (np.ones((3, 2)), np.diag([1.0, 0, 1])[:, :2], 8, ValueError, "v must have no zero rows; got zeros in row 1"),
        (np.ones((3, 2)), np.ones((3, 2)), 0, ValueError, "tile must be at least 1; got 0"),
        (np.ones((0, 2)), np.ones((0, 2)), 8, ValueError, "none of them empty"),
    ],
)
def test_bad_input(u: object, v: object, tile: int, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        retrieval(u, v, tile=tile)
