"""What is wrong with embeddings at a glance: collapsed, of other lengths than 1, or duplicated."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._embeddings import Floats, unit_rows

_SAMPLED = 10_000
_NUMBERS_AT_ONCE = 1 << 26
_PRODUCTS_AT_ONCE = 512
_OFF = 1e-3
_TOO_ALIKE = 0.9
_TOO_FLAT = 2.0


@dataclass(frozen=True, kw_only=True)
class Health:
    """Measures of the embeddings u, v: (N, d) of N pairs.

    Attributes:
        shortest: The least norm of a row on either side.
        longest: The largest norm of a row on either side.
        alike: The mean cosine similarity of two different samples, of the worse side: 1 where all rows point one way.
        directions: How many directions the rows fill, of the worse side: (Σλ)² / Σλ² of the eigenvalues λ of the
            covariance of the unit rows, between 1 and d; 0 where all rows are the same.
        dim: d.
        copies: How many pairs are exact copies of an earlier pair.
    """

    shortest: float
    longest: float
    alike: float
    directions: float
    dim: int
    copies: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know, in words; empty where all is well.

        Collapsed: `alike` above 0.9, or rows that fill fewer than 2 of at least 4 directions. Unnormalised: a norm
        further than 0.001 from 1. Duplicated: any copy.
        """
        found = []
        if self.alike > _TOO_ALIKE:
            found.append(
                f"the embeddings look collapsed: two different samples have a mean cosine similarity of "
                f"{self.alike:.3f}, and batches chosen by it mean little"
            )
        elif self.directions < _TOO_FLAT and self.dim >= 2 * _TOO_FLAT:
            found.append(
                f"the embeddings look collapsed: they fill {self.directions:.2f} of {self.dim} directions, and batches "
                "chosen by them mean little"
            )
        if self.shortest < 1 - _OFF or self.longest > 1 + _OFF:
            found.append(
                f"the embeddings are not normalised (norms from {self.shortest:.4g} to {self.longest:.4g}); rows are "
                "divided by their norm, which is right only if the loss does so too"
            )
        if self.copies:
            found.append(
                f"{self.copies:,} pairs are exact copies of earlier ones, and can be no negatives of them: groups "
                "keep them apart, where a margin only takes their weight away"
            )
        return tuple(found)


def health(u: npt.NDArray[np.floating], v: npt.NDArray[np.floating]) -> Health:
    """Measures u, v: (N, d), read in blocks; `alike` and `directions` on at most 10,000 rows at even distances.

    On fewer where d is beyond 6,710: 2²⁶ numbers of each side are in memory at a time.
    """
    norms = [_norms(side) for side in (u, v)]
    rows = np.linspace(0, len(u) - 1, min(len(u), _SAMPLED, _rows_at_once(u))).astype(np.int64)
    sides = [unit_rows(name, side[rows]) for name, side in (("u", u), ("v", v))]
    return Health(
        shortest=min(float(norm.min()) for norm in norms),
        longest=max(float(norm.max()) for norm in norms),
        alike=max(_alike(side) for side in sides),
        directions=min(_directions(side) for side in sides),
        dim=int(u.shape[1]),
        copies=_copies(u, v),
    )


def _rows_at_once(values: npt.NDArray[np.floating]) -> int:
    return max(2, _NUMBERS_AT_ONCE // int(values.shape[1]))


def _norms(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    step = _rows_at_once(values)
    return np.concatenate([_norms_of_rows(values[start : start + step]) for start in range(0, len(values), step)])


def _norms_of_rows(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """‖x‖ = s ‖x / s‖ with s = max |x|, so that no square is beyond float64 or vanishes; infinite where ‖x‖ is."""
    rows = np.array(values, np.float64)
    largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    rows /= np.where(largest > 0, largest, 1)[:, None]
    with np.errstate(over="ignore"):
        norms: npt.NDArray[np.float64] = largest * np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms


def _alike(rows: Floats) -> float:
    """The mean of x_i · x_j over i ≠ j, from ‖Σ x‖² = N + Σ_{i≠j} x_i · x_j."""
    count = len(rows)
    total = rows.sum(axis=0, dtype=np.float64)
    return float((total @ total - count) / (count * (count - 1)))


def _directions(rows: Floats) -> float:
    """(Σλ)² / Σλ² from the smaller of XᵀX and XXᵀ, which have the same λ ≠ 0: Σλ = ‖X‖² and Σλ² = ‖XXᵀ‖²."""
    centered = rows - rows.mean(axis=0, dtype=np.float64)
    smaller = centered if len(centered) < centered.shape[1] else centered.T
    starts = range(0, len(smaller), _PRODUCTS_AT_ONCE)
    square = sum(float(np.square(smaller[i : i + _PRODUCTS_AT_ONCE] @ smaller.T).sum()) for i in starts)
    trace = float(np.square(centered).sum())
    return trace**2 / square if trace > 1e-10 * len(rows) else 0.0


def _copies(u: npt.NDArray[np.floating], v: npt.NDArray[np.floating]) -> int:
    seen: set[int] = set()
    step = _rows_at_once(u)
    for start in range(0, len(u), step):
        block = slice(start, start + step)
        both = np.concatenate([np.asarray(u[block]), np.asarray(v[block])], axis=1)
        seen.update(hash(row.tobytes()) for row in both)  # 64 bits: a chance collision among millions is unlikely
    return len(u) - len(seen)
