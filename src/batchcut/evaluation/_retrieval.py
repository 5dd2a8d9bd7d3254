"""Retrieval: how often an embedding finds its own partner among all."""

from dataclasses import asdict, dataclass, fields

import numpy as np
import numpy.typing as npt

from batchcut._errors import check_integer, invalid
from batchcut.selection import kernel

from ._embeddings import Floats, unit_rows

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_TILE = 1024
_ROUNDING = np.float32(2e-6)  # similarities of copies differ by this much in float32


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """How well one side finds the other: accuracies as shares, ranks counted from 1.

    Attributes:
        top1: Share of queries whose partner has rank 1.
        top5: Share of queries whose partner has rank 5 or better.
        top10: Share of queries whose partner has rank 10 or better.
        mrr: Mean reciprocal rank.
        mean_rank: Mean of the ranks.
        median_rank: Median of the ranks.
    """

    top1: float
    top5: float
    top10: float
    mrr: float
    mean_rank: float
    median_rank: float


SCORES = tuple(field.name for field in fields(Ranks))


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """How well each side finds the other, and the mean of both ways.

    Attributes:
        count: N, among how many each query looks for its partner.
        u_to_v: The ranks where rows of u look for their partners in v.
        v_to_u: The ranks where rows of v look for their partners in u.
    """

    count: int
    u_to_v: Ranks
    v_to_u: Ranks

    @property
    def top1(self) -> float:
        """Share of queries whose partner has rank 1, the mean of both ways."""
        return (self.u_to_v.top1 + self.v_to_u.top1) / 2

    @property
    def top5(self) -> float:
        """Share of queries whose partner has rank 5 or better, the mean of both ways."""
        return (self.u_to_v.top5 + self.v_to_u.top5) / 2

    @property
    def top10(self) -> float:
        """Share of queries whose partner has rank 10 or better, the mean of both ways."""
        return (self.u_to_v.top10 + self.v_to_u.top10) / 2

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank, the mean of both ways."""
        return (self.u_to_v.mrr + self.v_to_u.mrr) / 2

    @property
    def mean_rank(self) -> float:
        """Mean rank, the mean of both ways."""
        return (self.u_to_v.mean_rank + self.v_to_u.mean_rank) / 2

    @property
    def median_rank(self) -> float:
        """Median rank, the mean of both ways."""
        return (self.u_to_v.median_rank + self.v_to_u.median_rank) / 2

    def as_dict(self) -> dict[str, float | int | dict[str, float]]:
        """All of it in plain numbers: the means of both ways, then each way's own."""
        means = {score: float(getattr(self, score)) for score in SCORES}
        return {"count": self.count, **means, "u_to_v": asdict(self.u_to_v), "v_to_u": asdict(self.v_to_u)}


def retrieval(u: object, v: object, *, tile: int = _TILE) -> Retrieval:
    """How often row i of u: (N, d) finds row i of v: (N, d) among all rows of v by cosine similarity, and back.

    The rank of a partner is 1 + the number of rows more similar to the query + half the number of rows as similar,
    the mean of all orders that ties allow: so embeddings that are all alike have rank (N + 1) / 2, and a query whose
    partner has an exact copy has no rank of 1. Similarities no further apart than 2e-6, the rounding of float32, are
    ties. Memory above the embeddings is a few times `tile`² numbers; both ways share one product of each tile.

    Args:
        u: The embeddings of one side, of any length: rows are divided by their norm.
        v: The embeddings of the other side; row i of u and v belong together.
        tile: How many rows are compared with how many others at a time.
    """
    size = check_integer("tile", tile, at_least=1)
    rows_u, rows_v = unit_rows("u", u), unit_rows("v", v)
    if rows_u.shape != rows_v.shape:
        raise invalid("v", f"have the shape of u, {rows_u.shape}", rows_v.shape)
    there, back = pair_ranks(rows_u, rows_v, size)
    return Retrieval(count=len(rows_u), u_to_v=summarize_ranks(there), v_to_u=summarize_ranks(back))


def pair_ranks(u: Floats, v: Floats, tile: int) -> tuple[Doubles, Doubles]:
    """(N,) ranks of v_i for u_i and of u_i for v_i; rows are unit vectors."""
    own = np.einsum("ij,ij->i", u, v)
    there, back = np.zeros(len(u), np.int64), np.zeros(len(u), np.int64)
    for top in range(0, len(u), tile):
        rows = slice(top, top + tile)
        for left in range(0, len(v), tile):
            columns = slice(left, left + tile)
            similarity = u[rows] @ v[columns].T
            if top == left:
                np.fill_diagonal(similarity, own[rows])
            _count_both_ways(similarity, own[rows], own[columns], there[rows], back[columns])
    # What was counted is 2 (more similar) + (as similar) + 1 for the partner itself.
    return (there + 1) / 2, (back + 1) / 2


@kernel
def _count_both_ways(similarity: Floats, row_own: Floats, column_own: Floats, there: Ints, back: Ints) -> None:
    """Adds 2 for each entry above the row's (column's) own similarity and 1 for each as large as it."""
    for i in range(similarity.shape[0]):
        above, near = row_own[i] + _ROUNDING, row_own[i] - _ROUNDING
        count = 0
        for j in range(similarity.shape[1]):
            value = similarity[i, j]
            count += (value > above) + (value >= near)
            back[j] += (value > column_own[j] + _ROUNDING) + (value >= column_own[j] - _ROUNDING)
        there[i] += count


def rank_rows(similarity: Floats, own: Floats) -> Doubles:
    """(..., M) the rank of the value on the diagonal in each row of similarity: (..., M, M); own: (..., M) is it."""
    above = np.count_nonzero(similarity > own[..., None] + _ROUNDING, axis=-1)
    near = np.count_nonzero(similarity >= own[..., None] - _ROUNDING, axis=-1)
    return np.asarray((above + near + 1) / 2)


def summarize_ranks(ranks: Doubles) -> Ranks:
    """The accuracies and averages of (N,) ranks."""
    return Ranks(
        top1=float((ranks <= 1).mean()),
        top5=float((ranks <= 5).mean()),
        top10=float((ranks <= 10).mean()),
        mrr=float((1 / ranks).mean()),
        mean_rank=float(ranks.mean()),
        median_rank=float(np.median(ranks)),
    )
