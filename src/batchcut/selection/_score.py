"""What came out of a plan: loss and weight of each batch."""

from functools import partial
from typing import NamedTuple

import numpy as np

from ._inputs import Doubles, Ints, Pairs
from ._weights import Weighting
from .compute import ALONE, Crew, score_batches, score_batches_fast

_SCORES_AT_ONCE = 1 << 18


class Scores(NamedTuple):
    """Per batch: two-sided loss and within-batch weight; over all: pairs that the margin robs of their weight."""

    losses: Doubles
    weights: Doubles
    margin_pairs: int


class Chosen(NamedTuple):
    """Batches (K, B) whose scores are known already."""

    batches: Ints
    losses: Doubles
    weights: Doubles
    margin_pairs: int


def score(pairs: Pairs, batches: Ints, weighting: Weighting, crew: Crew = ALONE) -> Scores:
    """Scores each row of `batches` (K, B), -1 marking the empty places of a short one.

    The loss of a batch is CLIP's, the mean over its samples and both directions: half of `eq:full_CLIP_loss`.
    """
    width = batches.shape[1]
    step = max(1, _SCORES_AT_ONCE // max(width * width, width * pairs.dim))
    blocks = [batches[start : start + step] for start in range(0, len(batches), step)]
    parts = crew.map(partial(_score_block, pairs, weighting), blocks)
    return Scores(
        np.concatenate([part.losses for part in parts]),
        np.concatenate([part.weights for part in parts]),
        sum(part.margin_pairs for part in parts),
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
        margin_pairs = score_batches(scores, sizes, weighting.log_negatives, bars, losses, weights)
    else:
        margin_pairs = score_batches_fast(scores, sizes, *factors, losses, weights)
    return Scores(losses, weights, int(margin_pairs))
