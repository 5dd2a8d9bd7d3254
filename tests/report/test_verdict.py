"""A verdict names its uncertainty: one seed is none, and chance may explain what it may explain."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tests.report._folders import write_run

from batchcut.report import Group, compare, read_run
from batchcut.report._verdict import finding, lead


def groups(folder: Path, gains: dict[str, list[float]], seeds: dict[str, list[int]] | None = None) -> list[Group]:
    """Of each method, a run a gain."""
    runs = []
    for method, own in gains.items():
        for seed, gain in zip((seeds or {}).get(method, range(len(own))), own, strict=True):
            runs.append(read_run(write_run(folder / f"{method}-{seed}", method=method, seed=seed, gain=gain)))
    return list(compare(runs).groups)


def test_the_interval_of_pairs_is_students(tmp_path: Path) -> None:
    shuffled, cut = groups(tmp_path, {"shuffle": [0, 0.01, 0.03], "cut": [0.05, 0.03, 0.08]})
    found = lead(cut, shuffled)
    differences = np.array(cut.finals) - np.array(shuffled.finals)
    interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(tuple(interval))
    assert found.pairs == 3
    wider = lead(cut, shuffled, among=3)
    three = stats.ttest_1samp(differences, 0).confidence_interval(1 - 0.05 / 3)
    assert wider.half_width == pytest.approx((three[1] - three[0]) / 2)


def test_the_interval_of_other_seeds_is_welchs(tmp_path: Path) -> None:
    gains = {"shuffle": [0, 0.01, 0.03], "cut": [0.05, 0.03]}
    shuffled, cut = groups(tmp_path, gains, {"shuffle": [0, 1, 2], "cut": [5, 6]})
    found = lead(cut, shuffled)
    interval = stats.ttest_ind(cut.finals, shuffled.finals, equal_var=False).confidence_interval(0.95)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(tuple(interval))
    assert found.pairs == 0


def text(folder: Path, gains: dict[str, list[float]]) -> str:
    runs = groups(folder, gains)
    return finding(compare([run for group in runs for run in group.runs]))


def test_one_seed_is_no_verdict(tmp_path: Path) -> None:
    said = text(tmp_path, {"shuffle": [0.0], "cut": [0.3]})
    assert said.startswith(
        "Cut ends 30.0 points above shuffled batches (90 % against 60 %) and passes their result after "
    )
    assert said.endswith("But one seed is no verdict: nothing says how much runs differ by chance.")
    assert "one seed is no verdict" in text(tmp_path / "alone", {"cut": [0.3]})


def test_a_difference_that_chance_may_explain_is_called_that(tmp_path: Path) -> None:
    said = text(tmp_path, {"shuffle": [0.0, 0.02, 0.04], "cut": [0.05, 0.0, 0.05]})
    assert "That is no verdict: the difference is known to ± " in said
    assert said.endswith("(95 % interval, 3 seeds in pairs), which holds 0, so that chance may explain it.")


def test_a_clear_difference_has_its_interval(tmp_path: Path) -> None:
    said = text(tmp_path, {"shuffle": [0.0, 0.02, 0.04], "cut": [0.1, 0.121, 0.14]})
    assert "no verdict" not in said
    assert said.endswith("The difference is known to ± 0.1 points (95 % interval, 3 seeds in pairs).")
    worse = text(tmp_path / "worse", {"shuffle": [0.1, 0.121, 0.14], "cut": [0.0, 0.02, 0.04]})
    assert worse.startswith("No plan beats shuffled batches here: Cut ends 10.0 points below them ")


def test_without_shuffled_runs_the_first_two_are_compared(tmp_path: Path) -> None:
    said = text(tmp_path, {"spectral": [0.0, 0.02], "cut": [0.1, 0.12]})
    assert said.startswith("Cut is 10.0 points above Spectral, the next (")
    assert math.isnan(lead(*groups(tmp_path / "few", {"spectral": [0.0], "cut": [0.1]})).half_width)
