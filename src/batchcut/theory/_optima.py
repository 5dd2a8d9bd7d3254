"""The configurations that are optimal, tests for them, and their loss in closed form. Embeddings are rows."""

import math

import torch
from scipy.linalg import helmert
from torch import Tensor

from batchcut._errors import check_integer, check_positive, invalid
from batchcut.losses import check_form


def simplex_etf(n: int, d: int) -> Tensor:
    """Simplex equiangular tight frame: n unit rows with inner products -1/(n-1); (n, d) float64.

    Optimal for n ≤ d + 1 (`def:nc-simplex-etf`, `thm:standard-full-batch-case1`).
    """
    n = check_integer("n", n, at_least=2)
    d = check_integer("d", d, at_least=1)
    if n > d + 1:
        raise invalid("n", f"be at most d + 1 = {d + 1} for a simplex ETF", n)
    # The rows of the centred identity have the right angles; Helmert's matrix writes them in n - 1 dimensions.
    rows = torch.from_numpy(helmert(n)).T * (n / (n - 1)) ** 0.5
    return torch.nn.functional.pad(rows, (0, d - n + 1))


def cross_polytope(n: int, d: int) -> Tensor:
    """Cross-polytope: the rows e_1, -e_1, e_2, -e_2, ...; (n, d) float64.

    Optimal for n = 2d among symmetric antipodal configurations (`def:cross-polytope`,
    `thm:standard-full-batch-case2`).
    """
    n = check_integer("n", n, at_least=2)
    d = check_integer("d", d, at_least=1)
    if n % 2:
        raise invalid("n", "be even for a cross-polytope", n)
    if n > 2 * d:
        raise invalid("n", f"be at most 2 d = {2 * d} for a cross-polytope", n)
    axes = torch.eye(d, dtype=torch.float64)[: n // 2]
    return torch.stack([axes, -axes], dim=1).reshape(n, d)


def optimal_loss(n: int, d: int, *, batch_size: int | None = None, temperature: float = 1.0) -> float:
    """The lowest loss of n pairs in d dimensions, of the full batch or as the mean over all C(n, B) batches.

    For n ≤ d + 1 it is reached by the simplex ETF (`thm:standard-full-batch-case1`, `thm:NcB-reaches-etf` (i)):

        2 log(1 + (B − 1) e^{−n / ((n − 1) τ)}).

    For n = 2d it is the lowest among symmetric antipodal configurations, reached by the cross-polytope
    (`thm:standard-full-batch-case2`, `thm:NcB-reaches-etf` (ii)). A batch holds the antipode of a member with
    probability p = (B - 1)/(n - 1):

        2 p log(1 + e^{−2/τ} + (B − 2) e^{−1/τ}) + 2 (1 − p) log(1 + (B − 1) e^{−1/τ}).

    Args:
        n: the number of pairs.
        d: the dimension.
        batch_size: B; n, the full batch, if left out.
        temperature: a number above 0. The paper has 1; its proofs hold for any.
    """
    n = check_integer("n", n, at_least=2)
    d = check_integer("d", d, at_least=1)
    size = n if batch_size is None else check_integer("batch_size", batch_size, at_least=2, at_most=n)
    tau = check_positive("temperature", temperature)
    if n <= d + 1:
        return 2 * math.log1p((size - 1) * math.exp(-n / ((n - 1) * tau)))
    if n != 2 * d:
        raise invalid("n", f"be at most d + 1 = {d + 1} or equal to 2 d = {2 * d}, the cases with a proof", n)
    near, far = math.exp(-1 / tau), math.exp(-2 / tau)
    with_antipode = (size - 1) / (n - 1)
    return 2 * (
        with_antipode * math.log1p(far + (size - 2) * near) + (1 - with_antipode) * math.log1p((size - 1) * near)
    )


def is_simplex_etf(u: Tensor, *, tolerance: float = 1e-6) -> bool:
    """Whether the rows u: (n, d) have unit length and inner products -1/(n-1) (`def:nc-simplex-etf`)."""
    gram, n = _gram(u)
    wanted = torch.full_like(gram, -1 / (n - 1)).fill_diagonal_(1)
    return bool((gram - wanted).abs().max() <= tolerance)


def is_cross_polytope(u: Tensor, *, tolerance: float = 1e-6) -> bool:
    """Whether each row of u: (n, d) is the negative of one row and orthogonal to the rest (`def:cross-polytope`)."""
    gram, n = _gram(u)
    if n % 2:
        return False
    opposite = gram < -0.5
    if not bool((opposite.sum(dim=1) == 1).all()):
        return False
    wanted = torch.eye(n, dtype=gram.dtype) - opposite.to(gram.dtype)
    return bool((gram - wanted).abs().max() <= tolerance)


def is_equiangular_tight_frame(u: Tensor, *, tolerance: float = 1e-6) -> bool:
    """Whether the rows u: (n, d) have unit length, |inner products| all alike, and uᵀu = (n/d) I (`def:original-etf`).

    This is the general definition. A simplex ETF in more than n - 1 dimensions is none of these: it does not span the
    space.
    """
    gram, n = _gram(u)
    unit = (gram.diagonal() - 1).abs().max()
    angles = gram[~torch.eye(n, dtype=torch.bool)].abs()
    frame = u.double().T @ u.double() - n / u.shape[1] * torch.eye(u.shape[1], dtype=torch.float64)
    return bool(max(unit, angles.max() - angles.min(), frame.abs().max()) <= tolerance)


def _gram(u: Tensor) -> tuple[Tensor, int]:
    check_form("u", u, at_least=2)
    rows = u.detach().double()
    return rows @ rows.T, len(u)
