"""What came out of a plan: loss and weight of each batch, and which pairs are too similar to be negatives."""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from batchcut._errors import invalid, wrong_type

from ._inputs import Doubles, Ints, Pairs
from ._kernels import score_batches
from ._parallel import ALONE, Workers

_SCORES_AT_ONCE = 1 << 20
_NO_GUARD = -1e30  # finite: the kernels are compiled without infinities
_ROUNDING = 2e-6  # an exact copy of an anchor's positive must count as being within a margin of 0


@dataclass(frozen=True)
class Weighting:
    """The weights of a request: B of the formula (not of a short batch), temperature and margin."""

    batch_size: int
    temperature: float
    margin: float | None

    @property
    def scale(self) -> np.float32:
        """What turns a similarity into a score."""
        return np.float32(1 / self.temperature)

    @property
    def log_negatives(self) -> np.float32:
        """log(B − 1), which moves the soft-plus."""
        return np.float32(math.log(self.batch_size - 1))

    @property
    def guard(self) -> np.float32:
        """The margin in units of the temperature; far below any score where there is none."""
        return np.float32(_NO_GUARD if self.margin is None else (self.margin + _ROUNDING) / self.temperature)


class Scores(NamedTuple):
    """Per batch: two-sided loss and within-batch weight; over all: pairs that the margin robs of their weight."""

    losses: Doubles
    weights: Doubles
    guarded: int


def check_margin(margin: object) -> float | None:
    """Returns the margin, if it is None or a finite number."""
    if margin is None:
        return None
    if isinstance(margin, bool) or not isinstance(margin, (int, float)):
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
    parts = crew.map(partial(_score_block, pairs, weighting), blocks, lambda _: None)
    return Scores(
        np.concatenate([part.losses for part in parts]),
        np.concatenate([part.weights for part in parts]),
        sum(part.guarded for part in parts),
    )


def _score_block(pairs: Pairs, weighting: Weighting, batches: Ints) -> Scores:
    losses, weights = np.empty(len(batches)), np.empty(len(batches))
    u = pairs.u[batches]
    u *= weighting.scale
    scores = np.matmul(u, pairs.v[batches].transpose(0, 2, 1))
    sizes = (batches >= 0).sum(axis=1)
    guarded = score_batches(scores, sizes, weighting.log_negatives, weighting.guard, losses, weights)
    return Scores(losses, weights, int(guarded))
