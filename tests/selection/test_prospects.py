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


def test_brings_nothing_where_nothing_is_left_to_learn() -> None:
    """Random directions at a low temperature: many times the loss of random batches is still next to none."""
    u = np.random.default_rng(0).normal(size=(500, 32)).astype(np.float32)
    found = _of(u, u, batch_size=32)
    assert found.times_shuffled > 2.5
    assert found.loss_without_twins < 0.01
    assert not found.pays
    assert found.sentences[0].startswith("Planning is not worth its time here: the loss of such a batch is ")
    assert found.sentences[0].endswith(": little is left to learn.")


@pytest.mark.parametrize("copies", [2, 50])
def test_brings_nothing_where_all_that_is_hard_are_copies(copies: int) -> None:
    u = np.repeat(np.random.default_rng(0).normal(size=(1000 // copies, 32)), copies, axis=0).astype(np.float32)
    found = _of(u, u, batch_size=32)
    assert found.times_shuffled > 2.5
    assert not found.pays
    assert found.sentences[0].endswith(" without samples that have a twin in it: little is left to learn.")
    assert "where you know which are the same, give groups" in found.sentences[2]


def test_the_loss_without_twins_is_that_of_the_batches_without_them() -> None:
    """By the definition, one sample after the other."""
    u, v = _clustered(8, 6)
    plan = bc.Cut(temperature=0.05)(u, v, batch_size=8)
    a, b = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (u, v))
    scores, losses = a @ b.T, []
    for batch in plan:
        for i in batch:
            others = [
                j for j in batch if j != i and scores[i, j] + scores[j, i] < scores[i, i] + scores[j, j] - 2 * 0.05
            ]
            both = np.stack([scores[i, others], scores[others, i]])
            losses.append(np.log1p(np.exp((both - scores[i, i]) / 0.05).sum(axis=1)).mean())
    assert prospects(u, v, plan).loss_without_twins == pytest.approx(np.mean(losses), rel=1e-4)


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
    twins = np.repeat(kinds, 2, axis=0)
    assert _of(twins, twins, batch_size=4).sentences[1].startswith("About one negative matters to a sample: ")
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


def test_groups_are_no_negatives_and_no_twins() -> None:
    """Five captions of each image: random batches, too, keep them apart, where they would be the hardest of all."""
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(30, 32))[rng.integers(0, 30, 200)]
    image = np.repeat(np.arange(200), 5)
    u = (kinds + rng.normal(size=(200, 32)))[image].astype(np.float32)
    v = (u + rng.normal(size=u.shape)).astype(np.float32)
    plan = bc.Cut(temperature=0.05)(u, v, batch_size=64, groups=image)
    shuffled = bc.Shuffle(temperature=0.05)(u, v, batch_size=64, groups=image)
    alone, found = prospects(u, v, plan), prospects(u, v, plan, groups=image)
    assert found.times_shuffled == pytest.approx(plan.mean_loss / shuffled.mean_loss)
    assert alone.times_shuffled < 1 < 3 < found.times_shuffled
    assert alone.twins == 1
    assert found.twins < 0.5
    kinds_alone = np.repeat(np.eye(10, dtype=np.float32), 12, axis=0)
    pair_of = [[str(i // 2), f"of {i % 12 // 4} and {i // 12}"] for i in range(120)]  # a text in common with three
    found = prospects(
        kinds_alone, kinds_alone, bc.Cut(margin=None)(kinds_alone, kinds_alone, batch_size=4), groups=pair_of
    )
    assert found.hard_negatives == pytest.approx(8, rel=1e-2)


def test_where_all_are_of_one_group_nothing_matters() -> None:
    u, v = _clustered(4, 4)
    with pytest.warns(RuntimeWarning, match="more members than there are batches"):
        plan = bc.Cut()(u, v, batch_size=4, groups=[0] * 16)
    found = prospects(u, v, plan, groups=[0] * 16)
    assert (found.hard_negatives, found.twins) == (0, 0)


def test_knows_no_size_where_the_plan_was_not_measured() -> None:
    u, v = _clustered(20, 4)
    found = prospects(u, v, bc.Cut()(u, v, batch_size=4))
    assert found.effective is None
    assert "teaches like" not in found.sentences[0]


@pytest.mark.parametrize("kind", ["another order", "all rows the same", "turned around"])
def test_sides_that_do_not_belong_together(kind: str) -> None:
    u, v = _clustered(50, 8)
    order = np.random.default_rng(1).permutation(len(u))
    u, v = {"another order": (u, v[order]), "all rows the same": (u * 0 + 1, v * 0 + 1), "turned around": (u, -v)}[kind]
    found = _of(u, v)
    assert not found.partners_nearer
    assert not found.pays
    assert len(found.sentences) == 1
    assert "partners are no more alike than samples at random. Row i of both sides must" in found.sentences[0]


def test_partners_need_not_be_the_nearest() -> None:
    """Noise three times as strong as what both sides have in common, and all rows in one direction."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(2000, 32))
    u, v = ((hidden + 3 * rng.normal(size=hidden.shape) + 5).astype(np.float32) for _ in range(2))
    assert _of(u, v).partners_nearer
    assert _of(*_clustered(2, 2), batch_size=2).partners_nearer


def test_is_a_function_of_the_plan() -> None:
    u, v = _clustered(100, 8)
    assert _of(u, v) == _of(u, v)
