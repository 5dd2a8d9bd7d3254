"""What the benchmark of selectors computes by itself."""

import numpy as np
import pytest
from benchmarks.planning.bars import bars, notes
from benchmarks.planning.loss import mean_loss_by_sample

import batchcut as bc


@pytest.fixture
def sides() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, 24, 5)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    return rows[0], rows[1]


def test_of_a_partition_it_is_the_mean_loss(sides: tuple[np.ndarray, np.ndarray]) -> None:
    plan = bc.Shuffle(temperature=0.2)(*sides, batch_size=6)
    assert mean_loss_by_sample(*sides, plan.batches, 0.2) == pytest.approx(plan.losses.mean(), rel=1e-5)


def test_a_batch_that_is_repeated_counts_once(sides: tuple[np.ndarray, np.ndarray]) -> None:
    batches = np.arange(24).reshape(4, 6)
    often = batches[[0, 1, 1, 1, 2, 3]]
    once, repeated = (mean_loss_by_sample(*sides, rows, 0.2) for rows in (batches, often))
    assert repeated == pytest.approx(once, rel=1e-6)


def test_the_loss_of_a_sample_is_the_mean_over_its_batches(sides: tuple[np.ndarray, np.ndarray]) -> None:
    u, v = sides
    batches = np.array([[0, 1, 2], [0, 3, 4]])

    def loss(sample: int, batch: list[int]) -> float:
        scores = [u[sample] @ v[batch].T / 0.2, v[sample] @ u[batch].T / 0.2]
        own = u[sample] @ v[sample] / 0.2
        return float(np.mean([np.log(np.exp(row).sum()) - own for row in scores]))

    expected = [(loss(0, [0, 1, 2]) + loss(0, [0, 3, 4])) / 2]
    expected += [loss(k, [0, 1, 2]) for k in (1, 2)] + [loss(k, [0, 3, 4]) for k in (3, 4)]
    assert mean_loss_by_sample(u, v, batches, 0.2) == pytest.approx(np.mean(expected), rel=1e-5)


def test_a_rival_that_repeats_samples_is_held_to_account_by_sample() -> None:
    ours = {"loss": 0.3, "by_sample": 0.3, "batches": 100, "exact": True, "seconds": 1.0}
    walk = {"loss": 0.4, "by_sample": 0.2, "batches": 1000, "exact": False, "seconds": 1.0}
    rows = {"S2": {"Shuffle": ours, "Cut": ours, "Cut, 1 round": ours, "walk": walk, "cells": ours | {"loss": 0.6}}}
    found = {bar.name: (round(bar.value, 6), bar.passed) for bar in bars(rows, {})}
    assert found == {
        "S2: Cut against walk, times the loss of a sample": (1.5, True),
        "S2: Cut against cells, times the loss": (0.5, False),
    }
    assert [(note.name, round(note.value, 6)) for note in notes(rows)] == [
        ("S2: Cut against walk, times the loss of a batch, 10.0 times as many", 0.75)
    ]
