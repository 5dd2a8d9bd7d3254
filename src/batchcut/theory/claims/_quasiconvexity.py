"""The loss is not quasi-convex along geodesics."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from batchcut.losses import contrastive_loss
from batchcut.theory._check import Check, claim, worst

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
def non_quasi_convex() -> Check:
    """The counter-example with √(4/5) in place of √(2/5)."""
    first, second, middle = (float(contrastive_loss(u, v)) for u, v in _three_points(0.8))
    return Check(
        label=LABEL,
        claim="corrected: the loss at the midpoint of a geodesic is above that at both ends",
        measured=middle - max(first, second),
        relation=">",
        bound=0.0,
        detail=(
            ("ends", f"{first:.4f}, {second:.4f}"),
            ("midpoint", f"{middle:.4f}"),
        ),
    )


@claim(LABEL)
def printed_values() -> Check:
    """The values that the paper prints, which sum over i where the loss takes the mean."""
    first, second, middle = (2 * float(contrastive_loss(u, v)) for u, v in _three_points(0.8))
    return Check(
        label=LABEL,
        claim="corrected, summed over i: 2.773 at the ends and 2.798 at the midpoint (largest deviation)",
        measured=worst([abs(first - 2.773), abs(second - 2.773), abs(middle - 2.798)]),
        relation="<=",
        bound=0.001,
        detail=(("ends", f"{first:.5f}, {second:.5f}"), ("midpoint", f"{middle:.5f}")),
    )


@claim(LABEL)
def non_quasi_convex_as_printed() -> Check:
    """The printed columns are not unit vectors."""
    points = _three_points(0.4)
    (u1, _), (_, v2), _ = points
    shortest = float(torch.linalg.vector_norm(torch.cat([u1, v2]), dim=1).min())
    first, second, middle = (float(contrastive_loss(u, v)) for u, v in points)
    return Check(
        label=LABEL,
        claim="as printed: the columns (√(2/5), √(1/5)) are unit vectors",
        measured=shortest,
        relation="=",
        bound=1.0,
        tolerance=1e-9,
        detail=(
            ("length of the column", f"{shortest:.4f}"),
            ("loss at the ends and the midpoint", f"{first:.4f}, {second:.4f}, {middle:.4f}"),
        ),
        erratum=1,
    )
