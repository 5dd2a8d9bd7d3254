import re

import pytest
import torch
from torch import Tensor

from batchcut.theory import (
    all_batches,
    asymmetry,
    cross_polytope,
    distance_to_optimum,
    full_batch,
    is_cross_polytope,
    is_simplex_etf,
    minimize,
    non_antipodality,
    optimal_loss,
    over_batches,
)


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 2), (4, 3), (4, 6)])
def test_finds_the_simplex_etf(n: int, d: int) -> None:
    found = minimize(full_batch(), n, d, starts=8)
    assert found.loss == pytest.approx(optimal_loss(n, d), abs=1e-12)
    assert is_simplex_etf(found.u, tolerance=1e-8)
    assert asymmetry(found.u, found.v) < 1e-8
    assert found.gradient < 1e-9
    assert found.reached == 1


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_finds_the_optimum_of_all_batches(size: int, temperature: float) -> None:
    found = minimize(over_batches(all_batches(4, size), temperature), 4, 3, starts=8)
    assert found.loss == pytest.approx(optimal_loss(4, 3, batch_size=size, temperature=temperature), abs=1e-11)
    assert distance_to_optimum(found.u, found.v) < 1e-6


@pytest.mark.parametrize("restriction", ["antipodal", "symmetric", "none"])
def test_finds_the_cross_polytope(restriction: str) -> None:
    found = minimize(full_batch(), 6, 3, starts=8, restriction=restriction)
    assert found.loss == pytest.approx(optimal_loss(6, 3), abs=1e-12)
    assert is_cross_polytope(found.u, tolerance=1e-7)
    assert distance_to_optimum(found.u, found.v) < 1e-7


def test_a_wrong_closed_form_would_be_noticed() -> None:
    # The optimum of another batch size, dimension or temperature is far off by the measure of the tests above.
    found = minimize(full_batch(), 4, 2, starts=8)
    assert abs(found.loss - optimal_loss(4, 2)) < 1e-12
    for wrong in (optimal_loss(4, 3), optimal_loss(4, 2, batch_size=3), optimal_loss(4, 2, temperature=0.99)):
        assert abs(found.loss - wrong) > 1e-3


def test_the_record_fits_together() -> None:
    found = minimize(full_batch(), 5, 3, starts=8)
    ones = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(torch.linalg.vector_norm(found.u, dim=1), ones)
    torch.testing.assert_close(torch.linalg.vector_norm(found.v, dim=1), ones)
    assert float(full_batch()(found.u @ found.v.T)) == pytest.approx(found.loss, abs=1e-14)
    assert not found.u.requires_grad
    assert 0 < found.reached <= 1


def test_the_same_seed_gives_the_same_result() -> None:
    first, again, other = (minimize(full_batch(), 5, 3, starts=4, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.u, again.u)
    assert torch.equal(first.v, again.v)
    assert first.loss == again.loss
    assert not torch.equal(first.u, other.u)
    assert first.loss == pytest.approx(other.loss, abs=1e-12)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    minimize(full_batch(), 3, 2, starts=2)
    assert torch.equal(before, torch.get_rng_state())


def test_restrictions_hold() -> None:
    batches = over_batches([(0, 1), (2, 3)])  # on its own this objective wants neither
    symmetric = minimize(batches, 4, 2, starts=4, restriction="symmetric")
    assert asymmetry(symmetric.u, symmetric.v) == 0
    antipodal = minimize(full_batch(), 8, 2, starts=4, restriction="antipodal")
    assert asymmetry(antipodal.u, antipodal.v) == 0
    assert non_antipodality(antipodal.u) < 1e-15


def test_a_restriction_raises_the_minimum_or_leaves_it() -> None:
    free = minimize(full_batch(), 8, 3, starts=6, restriction="symmetric")
    antipodal = minimize(full_batch(), 8, 3, starts=6, restriction="antipodal")
    assert antipodal.loss > free.loss + 1e-4


def curvature_by_differences(u: Tensor, step: float = 1e-3) -> float:
    """The lowest second difference of the symmetric full-batch loss of a square, over moves of its angles."""
    angles = torch.atan2(u[:, 1], u[:, 0])

    def loss(moved: Tensor) -> float:
        rows = torch.stack([moved.cos(), moved.sin()], dim=1)
        return float(full_batch()(rows @ rows.T))

    size = len(u)
    hessian = torch.zeros(size, size, dtype=torch.float64)
    unit = step * torch.eye(size, dtype=torch.float64)
    for i in range(size):
        for j in range(size):
            corners = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]
            hessian[i, j] = sum(s * loss(angles + a * unit[i] + b * unit[j]) for a, b, s in corners) / (4 * step**2)
    return float(torch.linalg.eigvalsh(hessian)[1])  # the first is the rotation of the whole


def test_the_curvature_is_that_of_the_loss() -> None:
    found = minimize(full_batch(), 4, 2, starts=4, restriction="symmetric")
    assert found.curvature == pytest.approx(curvature_by_differences(found.u), rel=1e-4)
    assert found.curvature > 0.1


def test_a_flat_direction_has_no_curvature() -> None:
    # Two batches that share no sample can be turned against each other.
    found = minimize(over_batches([(0, 1), (2, 3)]), 4, 2, starts=4, restriction="symmetric")
    assert abs(found.curvature) < 1e-9


def test_a_saddle_is_left() -> None:
    # The start is one random point; the collapsed configuration and other critical points lie on the way.
    losses = [minimize(full_batch(), 4, 2, starts=1, seed=seed).loss for seed in range(5)]
    wanted = full_batch()(cross_polytope(4, 2) @ cross_polytope(4, 2).T)
    assert losses == pytest.approx([float(wanted)] * 5, abs=1e-11)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n": 1, "d": 2}, "n must be at least 2; got 1"),
        ({"n": 3, "d": 0}, "d must be at least 1; got 0"),
        ({"n": 3, "d": 2, "starts": 0}, "starts must be at least 1; got 0"),
        (
            {"n": 3, "d": 2, "restriction": "odd"},
            "restriction must be one of none, symmetric, antipodal; got 'odd'",
        ),
        ({"n": 3, "d": 2, "restriction": "antipodal"}, "n must be even for antipodal configurations; got 3"),
    ],
)
def test_bad_values(arguments: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        minimize(full_batch(), **arguments)  # type: ignore[arg-type]
