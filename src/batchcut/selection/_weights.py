"""The graph of the paper: w(k, l) for all pairs, and which pairs are too similar to be negatives."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._errors import check_integer, check_number, check_positive, invalid

from ._inputs import Floats, Pairs, as_array, check_same_shape, unit_rows

_ROWS_AT_ONCE = 512
_NEVER = np.float32(1e30)  # finite, as is twice it: the kernels are compiled without infinities
_WIDEST = 3.0  # similarities lie between -1 and 1: a wider margin takes away no more than 2 does
_LEAST_TEMPERATURE, _MOST_TEMPERATURE = 1e-6, 1e6  # beyond them, scores in float32 say nothing
_LARGEST_EXPONENT = 80.0  # exp of more is beyond float32
_ROUNDING = 2e-6  # an exact copy of an anchor's positive must count as being within a margin of 0


@dataclass(frozen=True, eq=False)
class Weighting:
    """The weights of a request.

    Attributes:
        batch_size: B of the formula, not of a short batch.
        temperature: τ.
        bars: (N,) of each sample; a pair whose two scores together reach its two bars counts as false negatives.
    """

    batch_size: int
    temperature: float
    bars: Floats

    @classmethod
    def of(cls, pairs: Pairs, batch_size: int, temperature: float, margin: float | None) -> "Weighting":
        """The weights of these pairs, of which those within the margin get none."""
        if margin is None:
            return cls(batch_size, temperature, np.full(len(pairs), _NEVER))
        return cls(batch_size, temperature, np.float32(1 / temperature) * bars_of(pairs.positive, margin))

    @property
    def scale(self) -> np.float32:
        """What turns a similarity into a score."""
        return np.float32(1 / self.temperature)

    @property
    def log_negatives(self) -> np.float32:
        """log(B − 1), which moves the soft-plus."""
        return np.float32(math.log(self.batch_size - 1))

    def factors(self, positive: Floats, bars: Floats) -> tuple[np.float32, Floats, Floats] | None:
        """What `weigh_fast` needs to know of samples with these positive scores; None where numbers end."""
        highest = float(self.scale) * (1 + 1e-5)
        exponent = highest - positive.astype(np.float64) + float(self.log_negatives)
        reach = bars.astype(np.float64) - highest
        if 4 * exponent.max() >= _LARGEST_EXPONENT or 2 * reach.min() <= -_LARGEST_EXPONENT:
            return None
        limit = np.exp(np.minimum(reach, _LARGEST_EXPONENT / 2))
        return np.float32(highest), np.exp(exponent).astype(np.float32), limit.astype(np.float32)


def bars_of(positive: npt.NDArray[Any], margin: float) -> npt.NDArray[Any]:
    """The bars (N,) of samples with these similarities to their own positives.

    A pair (k, l) counts as false negatives where u_k·v_l + u_l·v_k ≥ u_k·v_k + u_l·v_l − 2·margin: the two could
    exchange their positives. One similarity alone is a poor witness where views are drawn at random: it exceeds a
    positive that happens to be poor, and the negatives that such a sample should learn from would look false.
    """
    within = min(max(margin, -_WIDEST), _WIDEST)
    return np.asarray(positive - positive.dtype.type(within + _ROUNDING))


def check_temperature(temperature: object, name: str = "temperature") -> float:
    """Returns the temperature, if it is a number at which scores can be told apart."""
    tau = check_positive(name, temperature)
    if not _LEAST_TEMPERATURE <= tau <= _MOST_TEMPERATURE:
        raise invalid(name, f"be between {_LEAST_TEMPERATURE:g} and {_MOST_TEMPERATURE:g}", temperature)
    return tau


def check_margin(margin: object) -> float | None:
    """Returns the margin, if it is None or a finite number."""
    if margin is None:
        return None
    number = check_number("margin", margin, "be None or a number")
    if not math.isfinite(number):
        raise invalid("margin", "be finite", margin)
    return number


def pair_weights(
    u: object,
    v: object,
    batch_size: int,
    temperature: float,
    *,
    margin: float | None = None,
) -> npt.NDArray[Any]:
    """(N, N) symmetric weights w(k, l) of the embeddings u: (N, d), v: (N, d); zero on the diagonal.

    With s(k, l) = u_k·v_l / τ, `subsec:spectral_clustering` bounds the paper's loss of a batch from below by
    Σ_{k<l} w(k, l) / (B(B−1)), where

        w(k, l) = Σ_{(i,j) ∈ {(k,l), (l,k)}} log(1 + (B−1) e^{s(i,j) − s(i,i)})
                                           + log(1 + (B−1) e^{s(j,i) − s(i,i)}).

    Beyond the result itself, memory is a few tiles of 512 rows. float64 in, float64 out; all else is float32.

    Args:
        u: The embeddings of one side, one row per sample.
        v: The embeddings of the other side; row i of u and v belong together.
        batch_size: B of the formula.
        temperature: τ, by which all similarities are divided.
        margin: If given, a pair gets no weight if its two similarities come, on average, within it of the two own
            positives: each could be taken for the other's positive.
    """
    size = check_integer("batch_size", batch_size, at_least=2)
    tau = check_temperature(temperature)
    width = check_margin(margin)
    arrays = as_array("u", u), as_array("v", v)
    dtype = np.float64 if np.result_type(*arrays) == np.float64 else np.float32
    rows_u = unit_rows("u", arrays[0], dtype=dtype)
    rows_v = unit_rows("v", arrays[1], dtype=dtype)
    check_same_shape(rows_u, rows_v)
    positive = np.einsum("ij,ij->i", rows_u, rows_v)
    return graph(rows_u, rows_v, None if width is None else bars_of(positive, width), size, tau)


def graph(
    rows_u: npt.NDArray[Any],
    rows_v: npt.NDArray[Any],
    bars: npt.NDArray[Any] | None,
    batch_size: int,
    temperature: float,
) -> npt.NDArray[Any]:
    """The weights of unit rows (n, d), none where two similarities together reach the two bars (n,) of a pair."""
    dtype = rows_u.dtype
    positive = np.einsum("ij,ij->i", rows_u, rows_v)
    tau, offset = dtype.type(temperature), dtype.type(math.log(batch_size - 1))
    weights = np.empty((len(rows_u), len(rows_u)), dtype)
    for top in range(0, len(rows_u), _ROWS_AT_ONCE):
        for left in range(top, len(rows_u), _ROWS_AT_ONCE):
            rows, columns = slice(top, top + _ROWS_AT_ONCE), slice(left, left + _ROWS_AT_ONCE)
            there, back = rows_u[rows] @ rows_v[columns].T, rows_v[rows] @ rows_u[columns].T
            tile = _tile(there, back, positive[rows, None], positive[None, columns], tau, offset)
            if bars is not None:
                tile[there + back >= bars[rows, None] + bars[None, columns]] = 0
            if left == top:  # the same to the last bit on both sides of the diagonal
                tile = np.minimum(tile, tile.T)
            weights[rows, columns] = tile
            weights[columns, rows] = tile.T
    np.fill_diagonal(weights, 0)
    return weights


def _tile(
    there: npt.NDArray[Any],
    back: npt.NDArray[Any],
    p: npt.NDArray[Any],
    q: npt.NDArray[Any],
    tau: np.floating[Any],
    offset: np.floating[Any],
) -> npt.NDArray[Any]:
    def soft_plus(difference: npt.NDArray[Any]) -> npt.NDArray[Any]:
        zero = difference.dtype.type(0)
        return np.asarray(np.logaddexp(zero, difference / tau + offset))

    return np.asarray(soft_plus(there - p) + soft_plus(back - p) + soft_plus(there - q) + soft_plus(back - q))
