import pytest
import torch
from torch import Tensor

from batchcut.paper.claims._adversary import into_balls, into_box, largest, largest_curvature

START = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))


def test_largest_finds_a_maximum_inside() -> None:
    peak = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64)
    found = largest(lambda x: -(x - peak).square().sum(dim=-1), START, into_box)
    assert found == pytest.approx(0, abs=1e-4)


def test_largest_finds_a_maximum_on_the_border() -> None:
    assert largest(lambda x: x.sum(dim=-1), START, into_box) == pytest.approx(3)
    assert largest(lambda x: x.sum(dim=-1), START, into_balls) == pytest.approx(3**0.5, abs=1e-6)


def test_curvature_of_a_quadratic_form_is_its_largest_eigenvalue() -> None:
    matrix = torch.diag(torch.tensor([1.0, -5.0, 2.0], dtype=torch.float64))

    def form(x: Tensor) -> Tensor:
        return 0.5 * ((x @ matrix) * x).sum(dim=-1)

    assert largest_curvature(form, START, into_box) == pytest.approx(5, abs=1e-3)


def test_curvature_is_sought_over_the_points_too() -> None:
    # x⁴/12 has curvature x², at most 1 in the box.
    assert largest_curvature(lambda x: x.pow(4).sum(dim=-1) / 12, START, into_box) == pytest.approx(1, abs=1e-3)
