"""A small set of pairs, and the settings of a short run on it."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import rivals_training

from batchcut.data import Pairs, Split
from batchcut.training import Config

TRAIN, TEST = 200, 40


@pytest.fixture
def split() -> Split:
    rng = np.random.default_rng(0)
    kinds = rng.standard_normal((12, 6))[rng.integers(12, size=TRAIN + TEST)]
    things = kinds + 0.5 * rng.standard_normal((TRAIN + TEST, 6))
    u, v = (things @ rng.standard_normal((6, width)) for width in (10, 9))
    return Split(*(Pairs("made up", u[rows], v[rows]) for rows in (slice(0, TRAIN), slice(TRAIN, None))))


@pytest.fixture
def config() -> Config:
    whole = rivals_training.config_for(seed=3)
    return replace(whole, epochs=3, model=replace(whole.model, width=16, dim=8))
