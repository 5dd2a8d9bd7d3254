"""The optimal loss in closed form, where the paper proves one."""

import math

from batchcut._errors import check_integer, check_positive, invalid


def optimal_loss(n: int, d: int, *, batch_size: int | None = None, temperature: float = 1.0) -> float:
    r"""The lowest loss of n pairs in d dimensions, of the full batch or as the mean over all C(n, B) batches.

    For n ≤ d + 1 it is reached by the simplex ETF (`thm:standard-full-batch-case1`, `thm:NcB-reaches-etf` (i)):

    .. math:: 2 \log\big(1 + (B - 1) e^{-n / ((n - 1) \tau)}\big).

    For n = 2d it is the lowest among symmetric antipodal configurations, reached by the cross-polytope
    (`thm:standard-full-batch-case2`, `thm:NcB-reaches-etf` (ii)). A batch holds the antipode of a member with
    probability p = (B - 1)/(n - 1):

    .. math::
        2 p \log\big(1 + e^{-2/\tau} + (B - 2) e^{-1/\tau}\big) + 2 (1 - p) \log\big(1 + (B - 1) e^{-1/\tau}\big).

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
