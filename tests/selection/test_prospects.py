"""Whether planning will pay, by embeddings alone."""

import numpy as np
import pytest
from numpy.typing import NDArray

import batchcut as bc
from batchcut.selection import Prospects, prospects

Array = NDArray[np.float32]


def _clustered(kinds: int, each: int, *, spread: float = 0.3, noise: float = 0.1) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    u = np.repeat(rng.normal(size=(kinds, 16)), each, axis=0)
    u = u + spread * rng.normal(size=u.shape)
    return u.astype(np.float32), (u + noise * rng.normal(size=u.shape)).astype(np.float32)


def _of(u: Array, v: Array, batch_size: int = 8, margin: float = 0.05) -> Prospects:
    plan = bc.Cut(temperature=0.05, margin=margin)(u, v, batch_size=batch_size)
    return prospects(u, v, plan.measured(u, v))


def test_pays_where_random_batches_are_solved() -> None:
    found = _of(*_clustered(100, 8))
    assert found.pays
    assert found.effective is not None
    assert found.effective > 16
    assert found.sentences[0].startswith(f"Planning pays: the loss of such a batch is {found.times_shuffled:.1f} times")
    assert "it teaches like a random one of " in found.sentences[0]


def test_compares_with_shuffled_batches() -> None:
    u, v = _clustered(100, 8)
    plan = bc.Cut(temperature=0.05)(u, v, batch_size=8, seed=3, epoch=2)
    shuffled = bc.Shuffle(temperature=0.05)(u, v, batch_size=8, seed=3, epoch=2)
    assert prospects(u, v, plan).times_shuffled == pytest.approx(plan.mean_loss / shuffled.mean_loss)


def test_brings_nothing_where_nothing_is_alike() -> None:
    rng = np.random.default_rng(0)
    u = np.linalg.qr(rng.normal(size=(64, 64)))[0].astype(np.float32)
    found = _of(u, u)
    assert not found.pays
    assert found.sentences[0].startswith("Planning is not worth its time here")


def test_brings_a_little_where_a_batch_holds_most() -> None:
    u, v = _clustered(4, 100)
    found = _of(u, v, batch_size=64)
    assert 1.5 <= found.times_shuffled < 2.5
    assert found.pays
    assert found.sentences[0].startswith("Planning brings a little: ")
    assert "a batch of 64 holds most of what is hard by itself" in found.sentences[0]


def test_counts_the_negatives_that_matter() -> None:
    """By the definition: all of one kind are equally hard, all others not at all."""
    kinds = np.eye(10, dtype=np.float32)
    u = np.repeat(kinds, 12, axis=0)
    found = _of(u, u, batch_size=12)
    assert found.hard_negatives == pytest.approx(11, rel=1e-3)
    assert found.sentences[1] == "About 11 negatives matter to a sample: a batch of 12 has room for them."
    few = _of(u, u, batch_size=4)
    assert few.sentences[1].endswith("more than a batch of 4 holds: each epoch brings others.")


def test_counts_twins() -> None:
    rng = np.random.default_rng(0)
    alone = rng.normal(size=(60, 32)).astype(np.float32)
    twice = np.concatenate([alone, alone[:20]])
    found = _of(twice, twice, batch_size=4)
    assert found.twins == pytest.approx(0.5)
    assert "50% of the samples have a twin" in found.sentences[2]
    assert _of(alone, alone, batch_size=4).twins == 0
    assert len(_of(alone, alone, batch_size=4).sentences) == 2


def test_knows_no_size_where_the_plan_was_not_measured() -> None:
    u, v = _clustered(20, 4)
    found = prospects(u, v, bc.Cut()(u, v, batch_size=4))
    assert found.effective is None
    assert "teaches like" not in found.sentences[0]


def test_is_a_function_of_the_plan() -> None:
    u, v = _clustered(100, 8)
    assert _of(u, v) == _of(u, v)
