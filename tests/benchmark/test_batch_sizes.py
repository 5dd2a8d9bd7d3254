"""Rates are chosen by what was held out, figures follow from runs, and bars can fail."""

from typing import Any

import pytest
from benchmarks import batch_sizes


def test_rates_grow_with_the_root_of_the_batch_size() -> None:
    assert batch_sizes.rates_of(32) == [2.5e-4, 5e-4, 1e-3]
    assert batch_sizes.rates_of(128) == [5e-4, 1e-3, 2e-3]


def _row(method: str, rate: float, part: str, seed: int, top1: float, size: int = 32) -> dict[str, Any]:
    about = {"data": "pairs", "batch_size": size, "method": method, "rate": rate}
    return about | {"part": part, "seed": seed, "top1": top1}


def _chosen(method: str, best: float, size: int = 32) -> list[dict[str, Any]]:
    return [
        _row(method, rate, "held out", seed, 0.5 + (rate == best) * 0.1, size)
        for rate in batch_sizes.rates_of(size)
        for seed in batch_sizes.CHOOSING_SEEDS
    ]


def test_a_rate_is_chosen_by_what_was_held_out_once_all_are_there() -> None:
    rows = _chosen("cut", 5e-4)
    assert batch_sizes.chosen_rates(rows) == {("pairs", 32, "cut"): 5e-4}
    misleading = [_row("cut", 2.5e-4, "test", seed, 0.99) for seed in (50, 51, 60)]
    assert batch_sizes.chosen_rates(rows + misleading) == {("pairs", 32, "cut"): 5e-4}
    assert batch_sizes.chosen_rates(rows[1:]) == {}


def test_a_summary_counts_the_chosen_rate_on_the_test_part_and_pairs_seeds() -> None:
    rows = _chosen("cut", 5e-4) + _chosen("shuffle", 1e-3)
    rows += [_row("cut", 5e-4, "test", 60, 0.8), _row("cut", 5e-4, "test", 61, 0.7), _row("cut", 1e-3, "test", 60, 0.1)]
    rows += [_row("shuffle", 1e-3, "test", 61, 0.6)]
    timed = [{"data": "pairs", "batch_size": 32, "method": "cut", "loop": loop} for loop in (9.0, 5.0, 6.0)]
    shuffled, planned = batch_sizes.summary(rows, timed)
    assert (shuffled["method"], shuffled["seeds"], shuffled["seconds"]) == ("shuffle", 1, None)
    assert (planned["rate"], planned["seeds"], planned["seconds"]) == (5e-4, 2, 6.0)
    assert planned["top1"] == pytest.approx(0.75)
    assert planned["gain"] == pytest.approx(0.1)
    assert planned["gain_spread"] is None


@pytest.mark.parametrize(
    ("planned", "shuffled", "passed"),
    [
        ({32: 0.795, 256: 0.80}, {32: 0.75, 256: 0.785}, [True, True, True]),
        ({32: 0.795, 256: 0.80}, {32: 0.75, 256: 0.81}, [False, True, False]),
        ({32: 0.785, 256: 0.80}, {32: 0.75, 256: 0.78}, [True, False, True]),
    ],
)
def test_bars_of_batch_sizes_can_fail(
    planned: dict[int, float], shuffled: dict[int, float], passed: list[bool]
) -> None:
    lines = [
        {"data": "pairs", "batch_size": size, "method": method, "top1": top1}
        for method, scores in (("cut", planned), ("shuffle", shuffled))
        for size, top1 in scores.items()
    ]
    assert [bar["passed"] for bar in batch_sizes.bars(lines)] == passed
