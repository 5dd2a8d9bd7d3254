"""Randomness as a function of what it is for: the one list of random streams."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What random numbers are for; a number is never given to another use, so that results stay what they are."""

    DROPPED = 0
    """Which samples sit out."""

    SHUFFLE = 1
    """The order in which samples are dealt to batches, the same for every selector."""

    SEARCH = 2
    """A selector's own choices."""

    BATCH_ORDER = 3
    """The order in which the batches of a plan are trained on."""

    STAND_INS = 4
    """Embeddings of samples of which none is known."""

    BACKGROUND = 5
    """Old embeddings that a batch sees beside its own."""

    EFFECTIVE_SIZE = 6
    """Anchors and random batches that the effective size of a plan is estimated from."""

    PROSPECTS = 7
    """Samples by which it is told whether planning will pay."""

    CELLS = 8
    """Samples that the cells of a set in files are fitted on."""

    CONFLICTS = 9
    """Which samples in conflict stay in a batch, where the others are left out."""

    VIEWS = 10
    """Views of images, for training."""

    EVALUATION = 11
    """Views of images, for scores."""

    PASS = 12
    """Views of images, for a pass before a plan."""

    WEIGHTS = 13
    """The first weights of a model."""

    KEPT = 14
    """Samples whose embeddings are kept, and their views."""

    STATISTICS = 15
    """Samples that batch norm's statistics are made from, and their views."""

    CORRUPTIONS = 19
    """Corruptions of images, for scores."""


def generator(stream: Stream, *numbers: int) -> np.random.Generator:
    """Random numbers for one use, a function of the stream and of numbers such as (seed, epoch)."""
    return np.random.default_rng([int(stream), *numbers])
