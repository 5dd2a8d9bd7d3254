import itertools
import math

import numpy as np
import pytest
import torch

from batchcut.losses.paper import contrastive_loss
from batchcut.paper.claims import toy_embeddings, toy_steps, toy_trajectory
from batchcut.paper.claims._toy_trajectory import (
    LIMIT,
    PAIRS,
    batch_gradients,
    batch_losses,
    leading_bounds,
    lipschitz_constant,
    log_bounds,
)

ANGLES = np.array([0.3, 0.1, 0.5, 0.2])


def test_batch_losses_are_the_contrastive_losses_of_the_points() -> None:
    points = torch.from_numpy(toy_embeddings(ANGLES))
    wanted = [float(contrastive_loss(points[pair], points[pair])) for pair in PAIRS.tolist()]
    np.testing.assert_allclose(batch_losses(ANGLES), wanted, atol=1e-12)
    assert sorted(map(tuple, PAIRS.tolist())) == list(itertools.combinations(range(4), 2))


def test_gradients_are_the_slopes_of_the_losses() -> None:
    step = 1e-6
    for axis in range(4):
        shift = np.eye(4)[axis] * step
        slopes = (batch_losses(ANGLES + shift) - batch_losses(ANGLES - shift)) / (2 * step)
        np.testing.assert_allclose(batch_gradients(ANGLES)[:, axis], slopes, atol=1e-8)


def test_osgd_takes_the_hardest_batch() -> None:
    first, second = itertools.islice(toy_trajectory("OSGD", learning_rate=0.1, epsilon=0.2), 2)
    moved = np.flatnonzero(first[0] != second[0])
    assert moved.tolist() == [0, 1]


def test_sgd_drifts_as_all_batches_do() -> None:
    _, mean = itertools.islice(toy_trajectory("all batches", learning_rate=0.1, epsilon=0.2), 2)
    _, many = itertools.islice(toy_trajectory("SGD", learning_rate=0.1, epsilon=0.2, replicates=20_000), 2)
    np.testing.assert_allclose(many.mean(axis=0), mean[0], atol=2e-3)


def test_same_seed_same_steps() -> None:
    def steps(seed: int) -> int | None:
        return toy_steps("SGD", learning_rate=0.05, epsilon=0.1, replicates=20, seed=seed)

    assert steps(0) == steps(0)


def test_never_reached_is_none() -> None:
    assert toy_steps("OSGD", learning_rate=0.01, epsilon=0.1, most_steps=5) is None


def test_published_constants() -> None:
    assert pytest.approx(0.2539, abs=5e-5) == LIMIT
    assert lipschitz_constant() == pytest.approx(0.436, abs=5e-4)


def test_bounds_by_hand() -> None:
    leading = leading_bounds(learning_rate=0.1, epsilon=0.1, margin=0.05)
    assert leading.osgd == pytest.approx((math.pi / 4 - 0.15) / 0.01)
    assert leading.sgd == pytest.approx(leading.osgd * 3 * (math.e**2 + 1) / (math.e**2 - 1))
    logarithmic = log_bounds(learning_rate=0.1, epsilon=0.1, margin=0.05)
    assert logarithmic.osgd == pytest.approx(2 / math.log(1.2) * math.log((math.pi / 4 - 0.05) / 0.1))


def test_bad_method() -> None:
    with pytest.raises(ValueError, match="method must be 'OSGD', 'SGD' or 'all batches'; got 'Adam'"):
        toy_trajectory("Adam", learning_rate=0.1, epsilon=0.1)  # type: ignore[arg-type]


def test_bad_start() -> None:
    with pytest.raises(ValueError, match=r"epsilon must be finite and above 0; got -1\.0"):
        toy_trajectory("SGD", learning_rate=0.1, epsilon=-1.0)
