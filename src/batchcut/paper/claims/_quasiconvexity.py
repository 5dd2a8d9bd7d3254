"""The loss is not quasi-convex along geodesics."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from batchcut.losses.paper import contrastive_loss

from ._check import Measured, claim, states, worst

LABEL = "lem:lclipnonquasiconvex"


def _three_points(first_entry: float) -> list[tuple[Tensor, Tensor]]:
    """The end points and the midpoint of the counter-example; rows are samples."""
    level = [0.5**0.5, 0.5**0.5]
    tilted = [first_entry**0.5, 0.2**0.5]
    u1, u2 = (torch.tensor(x, dtype=torch.float64) for x in ([level, tilted], [level, level]))
    v1, v2 = (torch.tensor(x, dtype=torch.float64) for x in ([level, level], [tilted, level]))
    middle = normalize((u1 + u2) / 2, dim=1), normalize((v1 + v2) / 2, dim=1)
    return [(u1, v1), (u2, v2), middle]


@claim(LABEL)
@states("corrected: the loss at the midpoint of a geodesic is above that at both ends", ">", 0.0)
def non_quasi_convex() -> Measured:
    """The counter-example with √(4/5) in place of √(2/5)."""
    first, second, middle = (float(contrastive_loss(u, v)) for u, v in _three_points(0.8))
    rows = [("ends", f"{first:.4f}, {second:.4f}"), ("midpoint", f"{middle:.4f}")]
    return middle - max(first, second), rows


@claim(LABEL)
@states("corrected, summed over i: 2.773 at the ends and 2.798 at the midpoint (largest deviation)", "<=", 0.001)
def printed_values() -> Measured:
    """The values that the paper prints, which sum over i where the loss takes the mean."""
    first, second, middle = (2 * float(contrastive_loss(u, v)) for u, v in _three_points(0.8))
    rows = [("ends", f"{first:.5f}, {second:.5f}"), ("midpoint", f"{middle:.5f}")]
    return worst([abs(first - 2.773), abs(second - 2.773), abs(middle - 2.798)]), rows


@claim(LABEL)
@states("as printed: the columns (√(2/5), √(1/5)) are unit vectors", "=", 1.0, tolerance=1e-9, erratum=1)
def non_quasi_convex_as_printed() -> Measured:
    """The printed columns are not unit vectors."""
    points = _three_points(0.4)
    (u1, _), (_, v2), _ = points
    shortest = float(torch.linalg.vector_norm(torch.cat([u1, v2]), dim=1).min())
    first, second, middle = (float(contrastive_loss(u, v)) for u, v in points)
    return shortest, [
        ("length of the column", f"{shortest:.4f}"),
        ("loss at the ends and the midpoint", f"{first:.4f}, {second:.4f}, {middle:.4f}"),
    ]
