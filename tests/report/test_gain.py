"""A gain and how sure it is, against SciPy's tests."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from batchcut.report import Gain
from batchcut.report._gain import gain_over

PARTS = st.integers(0, 1000).map(lambda part: part / 1000)
SCORES = st.lists(PARTS, min_size=2, max_size=8)


@given(st.lists(st.tuples(PARTS, PARTS), min_size=2, max_size=8), st.integers(1, 4))
def test_of_the_same_seeds_the_interval_is_students_of_pairs(pairs: list[tuple[float, float]], among: int) -> None:
    ours, theirs = (dict(enumerate(side)) for side in zip(*pairs, strict=True))
    differences = np.array([mine - other for mine, other in pairs])
    assume(np.ptp(differences) > 1e-4)  # SciPy warns of less
    gain = gain_over(ours, dict(reversed(theirs.items())))
    assert gain is not None
    assert gain.seeds == len(pairs)
    assert gain.mean == pytest.approx(differences.mean(), abs=1e-12)
    assert gain.standard_error == pytest.approx(stats.sem(differences))
    low, high = stats.ttest_1samp(differences, 0).confidence_interval(1 - 0.05 / among)
    assert gain.half_width(among=among) == pytest.approx((high - low) / 2)


@given(SCORES, SCORES)
def test_of_other_seeds_it_is_welchs(ours: list[float], theirs: list[float]) -> None:
    assume(min(np.ptp(ours), np.ptp(theirs)) > 1e-4)
    gain = gain_over(dict(enumerate(ours)), dict(enumerate(theirs, 100)))
    assert gain is not None
    assert gain.seeds == 0
    low, high = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert (gain.mean - gain.half_width(), gain.mean + gain.half_width()) == pytest.approx((low, high))


def test_runs_without_any_spread_are_certain_of_what_differs() -> None:
    for seeds in ((1, 2), (8, 9)):
        gain = gain_over({1: 0.5, 2: 0.5}, dict.fromkeys(seeds, 0.25))
        assert gain is not None
        assert (gain.half_width(), gain.is_certain()) == (0, True)


def test_one_seed_gives_no_error_and_no_certainty() -> None:
    gain = gain_over({7: 0.9}, {7: 0.2})
    assert gain is not None
    assert (gain.seeds, gain.points) == (1, "+70.0")
    assert math.isnan(gain.standard_error)
    assert not gain.is_certain()
    few = gain_over({7: 0.9}, {1: 0.2, 2: 0.3})
    assert few is not None
    assert (few.seeds, few.is_certain()) == (0, False)
    assert gain_over({}, {1: 0.2}) is None
    assert gain_over({1: 0.2}, {}) is None


def test_certainty_is_where_the_interval_does_not_hold_0() -> None:
    gain = Gain(mean=0.05, standard_error=0.01, seeds=3, freedom=2.0)
    assert gain.half_width() == pytest.approx(0.043, abs=1e-3)
    assert gain.is_certain()
    assert not gain.is_certain(among=3)
    assert (gain.points, Gain(mean=-0.05, standard_error=0.01, seeds=3, freedom=2.0).points) == (
        "+5.0 ± 1.0",
        "−5.0 ± 1.0",
    )
