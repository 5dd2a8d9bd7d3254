"""What came out of a plan: loss and weight of each batch, and which pairs are too similar to be negatives."""

import math
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from batchcut._errors import check_positive, invalid, wrong_type

from ._inputs import Doubles, Floats, Ints, Pairs
from ._kernels import score_batches, score_batches_fast
from ._parallel import ALONE, Workers

_SCORES_AT_ONCE = 1 << 18
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


class Scores(NamedTuple):
    """Per batch: two-sided loss and within-batch weight; over all: pairs that the margin robs of their weight."""

    losses: Doubles
    weights: Doubles
    guarded: int


class Chosen(NamedTuple):
    """Batches (K, B), with their scores where these are known already."""

    batches: Ints
    scores: Scores | None = None


def bars_of(positive: npt.NDArray[Any], margin: float) -> npt.NDArray[Any]:
    """The bars (N,) of samples with these similarities to their own positives.

    A pair (k, l) counts as false negatives where u_k·v_l + u_l·v_k ≥ u_k·v_k + u_l·v_l − 2·margin: the two could
    exchange their positives. One similarity alone is a poor witness where views are drawn at random: it exceeds a
    positive that happens to be poor, and the negatives that such a sample should learn from would look false.
    """
    within = min(max(margin, -_WIDEST), _WIDEST)
    return np.asarray(positive - positive.dtype.type(within + _ROUNDING))


def check_temperature(temperature: object) -> float:
    """Returns the temperature, if it is a number at which scores can be told apart."""
    tau = check_positive("temperature", temperature)
    if not _LEAST_TEMPERATURE <= tau <= _MOST_TEMPERATURE:
        raise invalid("temperature", f"be between {_LEAST_TEMPERATURE:g} and {_MOST_TEMPERATURE:g}", temperature)
    return tau


def check_margin(margin: object) -> float | None:
    """Returns the margin, if it is None or a finite number."""
    if margin is None:
        return None
    if isinstance(margin, bool) or not isinstance(margin, Real):
        raise wrong_type("margin", "be None or a number", margin)
    if not math.isfinite(margin):
        raise invalid("margin", "be finite", margin)
    return float(margin)


def score(pairs: Pairs, batches: Ints, weighting: Weighting, crew: Workers = ALONE) -> Scores:
    """Scores each row of `batches` (K, B), -1 marking the empty places of a short one.

    The loss of a batch is `eq:full_CLIP_loss`: a mean over its samples in each direction, the two added.
    """
    width = batches.shape[1]
    step = max(1, _SCORES_AT_ONCE // max(width * width, width * pairs.dim))
    blocks = [batches[start : start + step] for start in range(0, len(batches), step)]
    parts = crew.map(partial(_score_block, pairs, weighting), blocks)
    return Scores(
        np.concatenate([part.losses for part in parts]),
        np.concatenate([part.weights for part in parts]),
        sum(part.guarded for part in parts),
    )


def _score_block(pairs: Pairs, weighting: Weighting, batches: Ints) -> Scores:
    losses, weights = np.empty(len(batches)), np.empty(len(batches))
    u = pairs.u.take(batches, axis=0)
    u *= weighting.scale
    scores = np.matmul(u, pairs.v.take(batches, axis=0).transpose(0, 2, 1))
    sizes = (batches >= 0).sum(axis=1)
    bars = weighting.bars[batches]
    factors = weighting.factors(scores.diagonal(axis1=1, axis2=2), bars)
    if factors is None:
        guarded = score_batches(scores, sizes, weighting.log_negatives, bars, losses, weights)
    else:
        guarded = score_batches_fast(scores, sizes, *factors, losses, weights)
    return Scores(losses, weights, int(guarded))
