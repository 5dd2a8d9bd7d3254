import math
import re

import pytest
import torch
from torch import Tensor

from batchcut.losses.paper import contrastive_loss, minibatch_loss
from batchcut.theory import (
    cross_polytope,
    is_cross_polytope,
    is_equiangular_tight_frame,
    is_simplex_etf,
    optimal_loss,
    simplex_etf,
)

CASES = [(2, 1), (3, 2), (4, 7), (6, 5), (4, 2), (6, 3), (10, 5)]


def icosahedron_diagonals() -> Tensor:
    golden = (1 + math.sqrt(5)) / 2
    rows = [(0, 1, golden), (0, 1, -golden), (1, golden, 0), (1, -golden, 0), (golden, 0, 1), (-golden, 0, 1)]
    return torch.nn.functional.normalize(torch.tensor(rows, dtype=torch.float64), dim=1)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (2, 5), (3, 2), (4, 3), (4, 8), (17, 16), (16, 32)])
def test_simplex_etf_has_the_inner_products_of_the_definition(n: int, d: int) -> None:
    u = simplex_etf(n, d)
    wanted = torch.full((n, n), -1 / (n - 1), dtype=torch.float64).fill_diagonal_(1)
    assert u.shape == (n, d)
    assert u.dtype == torch.float64
    torch.testing.assert_close(u @ u.T, wanted, atol=1e-14, rtol=0)
    assert is_simplex_etf(u)


def test_more_dimensions_only_add_zeros() -> None:
    assert torch.equal(simplex_etf(4, 7), torch.nn.functional.pad(simplex_etf(4, 3), (0, 4)))
    assert torch.equal(cross_polytope(4, 5), torch.nn.functional.pad(cross_polytope(4, 2), (0, 3)))


@pytest.mark.parametrize(("n", "d"), [(2, 1), (4, 2), (8, 4), (6, 5)])
def test_cross_polytope_has_the_inner_products_of_the_definition(n: int, d: int) -> None:
    u = cross_polytope(n, d)
    gram = u @ u.T
    assert u.shape == (n, d)
    assert torch.equal(gram.diagonal(), torch.ones(n, dtype=torch.float64))
    assert torch.equal((gram == -1).sum(dim=1), torch.ones(n, dtype=torch.int64))
    assert torch.equal((gram == 0).sum(dim=1), torch.full((n,), n - 2))
    assert is_cross_polytope(u)


@pytest.mark.parametrize("n", range(2, 8))
def test_the_simplex_etf_is_a_general_etf_only_where_it_spans_the_space(n: int) -> None:
    assert is_equiangular_tight_frame(simplex_etf(n, n - 1))
    assert not is_equiangular_tight_frame(simplex_etf(n, n))


def test_general_etfs() -> None:
    angles = 2 * math.pi / 3 * torch.arange(3, dtype=torch.float64)
    mercedes = torch.stack([angles.cos(), angles.sin()], dim=1)
    assert is_equiangular_tight_frame(mercedes)
    diagonals = icosahedron_diagonals()
    assert is_equiangular_tight_frame(diagonals)
    assert not is_simplex_etf(diagonals)
    # The sign of a row is of no matter to a frame, but it is to a simplex.
    turned = mercedes * torch.tensor([[1.0], [-1.0], [1.0]])
    assert is_equiangular_tight_frame(turned)
    assert not is_simplex_etf(turned)


def test_what_breaks_a_general_etf() -> None:
    diagonals = icosahedron_diagonals()
    assert not is_equiangular_tight_frame(2 * diagonals)
    assert not is_equiangular_tight_frame(diagonals[:5])
    assert not is_equiangular_tight_frame(cross_polytope(6, 3))  # tight, not equiangular


def test_recognition_has_a_tolerance() -> None:
    u = simplex_etf(4, 3).clone()
    u[0, 0] += 1e-3
    assert not is_simplex_etf(u)
    assert is_simplex_etf(u, tolerance=1e-2)
    w = cross_polytope(4, 2).clone()
    w[0, 1] += 1e-3
    assert not is_cross_polytope(w)
    assert is_cross_polytope(w, tolerance=1e-2)


def test_what_is_no_cross_polytope() -> None:
    assert not is_cross_polytope(simplex_etf(3, 2))
    assert not is_cross_polytope(simplex_etf(4, 3))
    assert not is_cross_polytope(torch.eye(4, dtype=torch.float64))
    twice = cross_polytope(2, 2).repeat(2, 1)  # each row has two negatives
    assert not is_cross_polytope(twice)


def test_single_precision_is_read() -> None:
    assert is_simplex_etf(simplex_etf(5, 4).float())
    assert is_equiangular_tight_frame(simplex_etf(5, 4).float())


@pytest.mark.parametrize(
    ("n", "d", "text"),
    [
        (5, 3, "n must be at most d + 1 = 4 for a simplex ETF; got 5"),
        (1, 3, "n must be at least 2; got 1"),
        (2, 0, "d must be at least 1; got 0"),
    ],
)
def test_bad_sizes_of_a_simplex_etf(n: int, d: int, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        simplex_etf(n, d)


@pytest.mark.parametrize(
    ("n", "d", "text"),
    [
        (5, 3, "n must be even for a cross-polytope; got 5"),
        (8, 3, "n must be at most 2 d = 6 for a cross-polytope; got 8"),
        (0, 3, "n must be at least 2; got 0"),
        (2, -1, "d must be at least 1; got -1"),
    ],
)
def test_bad_sizes_of_a_cross_polytope(n: int, d: int, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        cross_polytope(n, d)


def test_sizes_must_be_integers() -> None:
    with pytest.raises(TypeError, match=r"^n must be an integer; got float$"):
        simplex_etf(3.0, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^d must be an integer; got bool$"):
        cross_polytope(2, True)


@pytest.mark.parametrize("test", [is_simplex_etf, is_cross_polytope, is_equiangular_tight_frame])
def test_recognition_needs_rows(test: object) -> None:
    assert callable(test)
    message = r"^u must hold at least 2 embeddings of at least 1 dimension; got shape \(1, 3\)$"
    with pytest.raises(ValueError, match=message):
        test(torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"^u must have shape \(n, d\); got \(4,\)$"):
        test(torch.ones(4))
    with pytest.raises(TypeError, match=r"^u must be a torch tensor; got list$"):
        test([[1.0]])


@pytest.mark.parametrize("temperature", [1.0, 0.1, 3.0])
@pytest.mark.parametrize(("n", "d"), CASES)
def test_the_closed_form_is_the_loss_at_the_optimum(n: int, d: int, temperature: float) -> None:
    u = simplex_etf(n, d) if n <= d + 1 else cross_polytope(n, d)
    wanted = contrastive_loss(u, u, temperature=temperature)
    assert optimal_loss(n, d, temperature=temperature) == pytest.approx(float(wanted), abs=1e-13)
    for size in range(2, n + 1):
        wanted = minibatch_loss(u, u, "all", batch_size=size, temperature=temperature)
        found = optimal_loss(n, d, batch_size=size, temperature=temperature)
        assert found == pytest.approx(float(wanted), abs=1e-13)


@pytest.mark.parametrize(("n", "d"), CASES)
def test_a_batch_of_all_samples_is_the_full_batch(n: int, d: int) -> None:
    assert optimal_loss(n, d, batch_size=n) == pytest.approx(optimal_loss(n, d), abs=1e-14)


def test_the_toy_example_of_the_paper() -> None:
    assert optimal_loss(4, 2) == pytest.approx(1.2530, abs=1e-4)


def test_two_pairs_on_a_line() -> None:
    assert optimal_loss(2, 1) == pytest.approx(2 * math.log1p(math.exp(-2)))


@pytest.mark.parametrize(("n", "d"), CASES)
def test_no_random_point_is_lower(n: int, d: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        u = torch.nn.functional.normalize(torch.randn(n, d, dtype=torch.float64, generator=generator), dim=1)
        assert float(contrastive_loss(u, u)) >= optimal_loss(n, d) - 1e-12


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n": 5, "d": 3}, "n must be at most d + 1 = 4 or equal to 2 d = 6, the cases with a proof; got 5"),
        ({"n": 1, "d": 3}, "n must be at least 2; got 1"),
        ({"n": 3, "d": 0}, "d must be at least 1; got 0"),
        ({"n": 4, "d": 3, "batch_size": 1}, "batch_size must be at least 2; got 1"),
        ({"n": 4, "d": 3, "batch_size": 5}, "batch_size must be at most 4; got 5"),
        ({"n": 4, "d": 3, "temperature": 0.0}, "temperature must be finite and above 0; got 0.0"),
        ({"n": 4, "d": 3, "temperature": -1}, "temperature must be finite and above 0; got -1"),
        ({"n": 4, "d": 3, "temperature": math.nan}, "temperature must be finite and above 0; got nan"),
    ],
)
def test_bad_values(arguments: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        optimal_loss(**arguments)


def test_bad_types() -> None:
    with pytest.raises(TypeError, match=r"^n must be an integer; got float$"):
        optimal_loss(4.0, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^batch_size must be an integer; got str$"):
        optimal_loss(4, 3, batch_size="2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^temperature must be a number; got NoneType$"):
        optimal_loss(4, 3, temperature=None)  # type: ignore[arg-type]
