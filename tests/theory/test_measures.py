import itertools
import re
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from batchcut.theory import asymmetry, cross_polytope, distance_to_optimum, non_antipodality, simplex_etf

seeds = st.integers(0, 2**32 - 1)


def unit_rows(n: int, d: int, generator: torch.Generator) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(n, d, dtype=torch.float64, generator=generator), dim=1)


def rotation(d: int, generator: torch.Generator) -> Tensor:
    turn: Tensor = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator)).Q
    return turn


def matchings(samples: list[int]) -> Iterator[list[tuple[int, int]]]:
    if not samples:
        yield []
        return
    first, *rest = samples
    for k, partner in enumerate(rest):
        for others in matchings(rest[:k] + rest[k + 1 :]):
            yield [(first, partner), *others]


def by_brute_force(u: Tensor, v: Tensor) -> float:
    n = len(u)
    products = u @ v.T
    distances = []
    for pairs in matchings(list(range(n))):
        wanted = torch.eye(n, dtype=torch.float64)
        for i, j in pairs:
            wanted[i, j] = wanted[j, i] = -1
        distances.append(float(torch.linalg.matrix_norm(products - wanted)))
    return min(distances)


def with_each_row_reordered(u: Tensor, v: Tensor) -> float:
    """The authors' distance: the entries of each row off the diagonal are sorted by themselves."""
    n, d = u.shape
    optimum = simplex_etf(n, d) if n <= d + 1 else cross_polytope(n, d)
    off = ~torch.eye(n, dtype=torch.bool)
    products, wanted = u @ v.T, optimum @ optimum.T
    ours, theirs = (x[off].reshape(n, n - 1).sort(dim=1).values for x in (products, wanted))
    return float((((ours - theirs) ** 2).sum() + ((products.diagonal() - 1) ** 2).sum()).sqrt())


def test_there_are_as_many_matchings_as_there_should_be() -> None:
    assert [len(list(matchings(list(range(n))))) for n in (2, 4, 6, 8)] == [1, 3, 15, 105]


@pytest.mark.parametrize("n", [4, 6, 8])
@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_the_distance_is_the_lowest_over_all_matchings(n: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    u, v = unit_rows(n, n // 2, generator), unit_rows(n, n // 2, generator)
    assert distance_to_optimum(u, v) == pytest.approx(by_brute_force(u, v), abs=1e-12)


def test_four_samples_by_every_relabelling() -> None:
    generator = torch.Generator().manual_seed(3)
    u, v = unit_rows(4, 2, generator), unit_rows(4, 2, generator)
    optimum = cross_polytope(4, 2)
    lowest = min(
        float(torch.linalg.matrix_norm(u @ v.T - optimum[list(order)] @ optimum[list(order)].T))
        for order in itertools.permutations(range(4))
    )
    assert distance_to_optimum(u, v) == pytest.approx(lowest, abs=1e-12)


@pytest.mark.parametrize(("n", "d"), [(3, 2), (5, 8), (6, 3), (8, 4)])
@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_relabelling_and_rotation_do_not_matter(n: int, d: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    u, v = unit_rows(n, d, generator), unit_rows(n, d, generator)
    order, turn = torch.randperm(n, generator=generator), rotation(d, generator)
    moved = distance_to_optimum(u[order] @ turn, v[order] @ turn)
    assert moved == pytest.approx(distance_to_optimum(u, v), abs=1e-10)


@pytest.mark.parametrize(("n", "d"), [(4, 3), (4, 2), (6, 3), (10, 5)])
@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_never_below_the_distance_of_the_authors(n: int, d: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    u, v = unit_rows(n, d, generator), unit_rows(n, d, generator)
    assert distance_to_optimum(u, v) >= with_each_row_reordered(u, v) - 1e-12


def test_the_distance_of_the_authors_understates() -> None:
    # The largest of a few gaps: rows that are right one by one, and fit no common relabelling.
    generator = torch.Generator().manual_seed(0)
    pairs = [(unit_rows(6, 3, generator), unit_rows(6, 3, generator)) for _ in range(20)]
    assert max(distance_to_optimum(u, v) - with_each_row_reordered(u, v) for u, v in pairs) > 0.5


@pytest.mark.parametrize(("n", "d"), [(2, 1), (3, 2), (4, 9), (9, 8)])
def test_zero_at_the_simplex_etf(n: int, d: int) -> None:
    generator = torch.Generator().manual_seed(n)
    u = simplex_etf(n, d) @ rotation(d, generator)
    assert distance_to_optimum(u, u) < 1e-13


@pytest.mark.parametrize("n", [4, 8, 12])
def test_zero_at_the_cross_polytope_in_any_order(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    u = (cross_polytope(n, n // 2) @ rotation(n // 2, generator))[torch.randperm(n, generator=generator)]
    assert distance_to_optimum(u, u) < 1e-12


def test_a_known_distance() -> None:
    # All inner products are 1 where -1/2 is wanted, six times.
    u = torch.tensor([[1.0, 0.0]] * 3)
    assert distance_to_optimum(u, u) == pytest.approx(6**0.5 * 1.5)


def test_asymmetry_is_the_largest_distance_of_a_pair() -> None:
    u = torch.eye(3)
    v = torch.tensor([[1.0, 0, 0], [0, -1.0, 0], [1.0, 0, 0]])
    assert asymmetry(u, u) == 0
    assert asymmetry(u, v) == 2


def test_non_antipodality_is_the_largest_distance_to_a_negative() -> None:
    assert non_antipodality(cross_polytope(8, 4)) == 0
    assert non_antipodality(torch.eye(2)) == pytest.approx(2**0.5)
    # The negative of a corner of a triangle is at 60 degrees from the two others.
    assert non_antipodality(simplex_etf(3, 2)) == pytest.approx(1)


def test_where_nothing_is_proven_there_is_no_distance() -> None:
    u = torch.eye(5)[:, :3] + 1
    text = "u must have n at most d + 1 = 4 or n = 2 d = 6 rows, the cases with a proof; got 5"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        distance_to_optimum(u, u)


BAD = [
    (torch.ones(3), ValueError, "u must have shape (n, d); got (3,)"),
    (torch.ones(1, 3), ValueError, "u must hold at least 2 embeddings of at least 1 dimension; got shape (1, 3)"),
    (torch.ones(2, 2, dtype=torch.int64), TypeError, "u must have a floating dtype; got torch.int64"),
    (torch.tensor([[1.0, 0.0], [0.0, 0.0]]), ValueError, "u must hold no zero vector; got one in row 1"),
    (torch.tensor([[float("nan"), 0.0], [0.0, 1.0]]), ValueError, "u must be finite; got nan in row 0"),
    (torch.tensor([[1.0, 0.0], [0.0, float("inf")]]), ValueError, "u must be finite; got inf in row 1"),
]


@pytest.mark.parametrize(("u", "kind", "text"), BAD)
def test_bad_embeddings(u: Tensor, kind: type[Exception], text: str) -> None:
    for measure in (distance_to_optimum, asymmetry):
        with pytest.raises(kind, match=f"^{re.escape(text)}$"):
            measure(u, u)
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        non_antipodality(u)


def test_bad_pairs() -> None:
    u = torch.eye(3)
    for measure in (distance_to_optimum, asymmetry):
        with pytest.raises(ValueError, match=r"^v must have the shape of u, \(3, 3\); got \(2, 3\)$"):
            measure(u, u[:2])
        with pytest.raises(ValueError, match=r"^v must have the dtype of u, torch.float32; got torch.float64$"):
            measure(u, u.double())
        with pytest.raises(TypeError, match=r"^v must be a torch tensor; got NoneType$"):
            measure(u, None)  # type: ignore[arg-type]
