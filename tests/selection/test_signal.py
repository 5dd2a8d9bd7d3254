"""The signal of a step: against autograd, and where it is known."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from batchcut.losses import contrastive_loss
from batchcut.selection import StepSignal, step_signal

Array = NDArray[np.float32]


def _pairs(count: int, dim: int = 6, *, seed: int = 0, noise: float = 0.5) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(count, dim))
    return u.astype(np.float32), (u + noise * rng.normal(size=u.shape)).astype(np.float32)


def _layer_gradient(u: Array, v: Array, batch: NDArray[np.int64], temperature: float) -> NDArray[np.float64]:
    """The gradient of the loss by an affine layer on the unit rows of either side, at the identity."""
    sides = [torch.nn.functional.normalize(torch.tensor(side[batch]).double(), dim=1) for side in (u, v)]
    layers = [torch.eye(side.shape[1], dtype=torch.float64, requires_grad=True) for side in sides]
    shifts = [torch.zeros(side.shape[1], dtype=torch.float64, requires_grad=True) for side in sides]
    moved = [side @ layer.T + shift for side, layer, shift in zip(sides, layers, shifts, strict=True)]
    contrastive_loss(*moved, temperature=temperature).backward()
    return np.concatenate([value.grad.numpy().ravel() for value in (*layers, *shifts) if value.grad is not None])


def test_is_that_of_autograd() -> None:
    u, v = _pairs(24)
    batches = np.random.default_rng(1).permutation(24).reshape(6, 4)
    full = _layer_gradient(u, v, np.arange(24), 0.2)
    found = np.array([_layer_gradient(u, v, batch, 0.2) for batch in batches])
    expected = found.mean(axis=0) @ full / np.linalg.norm(full) / np.sqrt((found**2).sum(axis=1).mean())
    assert step_signal(u, v, batches, temperature=0.2).planned == pytest.approx(expected, rel=1e-5)


def test_of_the_full_batch_is_one() -> None:
    u, v = _pairs(30)
    signal = step_signal(u, v, np.arange(30)[None], temperature=0.1)
    assert signal.planned == pytest.approx(1)
    assert signal.shuffled == pytest.approx(1)
    assert signal.ratio == pytest.approx(1)


def test_of_random_batches_grows_with_their_size() -> None:
    u, v = _pairs(2000, 16)
    order = np.random.default_rng(3).permutation(2000)
    signals = [step_signal(u, v, order.reshape(-1, size)).shuffled for size in (4, 20, 100, 500)]
    assert signals == sorted(signals)
    assert signals[0] < 0.5 < signals[-1]


def test_random_batches_given_are_as_good_as_random_batches() -> None:
    u, v = _pairs(2560, 16)
    signal = step_signal(u, v, np.random.default_rng(4).permutation(2560).reshape(-1, 20))
    assert signal.ratio == pytest.approx(1, abs=0.1)


def test_batches_of_one_have_none() -> None:
    u, v = _pairs(8)
    assert step_signal(u, v, np.arange(8)[:, None]) == StepSignal(planned=0.0, shuffled=0.0)


def test_a_short_batch_counts_as_it_is() -> None:
    u, v = _pairs(7)
    short = np.array([[0, 1, 2, 3], [4, 5, 6, -1]])
    assert 0 < step_signal(u, v, short).planned < 1


def test_is_a_function_of_seed_and_epoch() -> None:
    u, v = _pairs(4096, 4)
    batches = np.arange(4096).reshape(-1, 8)
    first, same, other = (step_signal(u, v, batches, seed=seed) for seed in (0, 0, 1))
    assert first == same != other


def test_wide_embeddings_need_no_square_matrix() -> None:
    u, v = _pairs(16, 40_000)  # a matrix of d × d would take 12 GB
    assert step_signal(u, v, np.arange(16).reshape(4, 4)).planned > 0


@pytest.mark.parametrize("batches", [np.arange(4), np.array([[0, 9]]), np.array([[0.0, 1.0]])])
def test_refuses_what_is_no_batches(batches: NDArray[np.generic]) -> None:
    u, v = _pairs(4)
    with pytest.raises((ValueError, TypeError), match="batches must"):
        step_signal(u, v, batches)
