import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.selection._interrupts import interrupted_after

import batchcut as bc

MakePairs = Callable[..., tuple[Any, Any]]


def test_without_replacement_is_a_new_partition_each_epoch(make_pairs: MakePairs) -> None:
    u, v = make_pairs(40)
    plans = [bc.Shuffle()(u, v, batch_size=8, epoch=epoch) for epoch in range(3)]
    for plan in plans:
        assert sorted(plan.batches.ravel().tolist()) == list(range(40))
        assert not plan.repeats
    assert plans[0].batches.tolist() != plans[1].batches.tolist() != plans[2].batches.tolist()


def test_fixed_is_the_same_partition_each_epoch(make_pairs: MakePairs) -> None:
    u, v = make_pairs(43)
    fixed = bc.Shuffle(replacement="fixed")
    plans = [fixed(u, v, batch_size=8, epoch=epoch) for epoch in range(3)]
    assert plans[0].batches.tolist() == plans[1].batches.tolist() == plans[2].batches.tolist()
    assert fixed(u, v, batch_size=8, seed=1).batches.tolist() != plans[0].batches.tolist()


def test_shuffle_is_uniform(make_pairs: MakePairs) -> None:
    u, v = make_pairs(6)
    together = np.zeros((6, 6))
    for seed in range(600):
        for batch in bc.Shuffle()(u, v, batch_size=2, seed=seed).batches:
            together[batch[0], batch[1]] += 1
            together[batch[1], batch[0]] += 1
    pairs = together[np.triu_indices(6, 1)]  # each of 15 pairs with chance 1/5
    assert pairs.sum() == 1800
    assert ((pairs - 120) ** 2 / 120).sum() < 36.1  # χ² with 14 degrees, 0.1 %


def test_with_replacement_draws_every_subset_alike(make_pairs: MakePairs) -> None:
    u, v = make_pairs(5)
    plan = bc.Shuffle(replacement="with", steps=3000)(u, v, batch_size=2)
    counts = np.unique(np.sort(plan.batches, axis=1), axis=0, return_counts=True)[1]
    assert plan.repeats
    assert len(counts) == 10
    assert ((counts - 300) ** 2 / 300).sum() < 27.9  # χ² with 9 degrees, 0.1 %


def test_batches_of_one_step_differ(make_pairs: MakePairs) -> None:
    u, v = make_pairs(6)
    for per_step in (1, 7, 15):
        plan = bc.Shuffle(replacement="with", per_step=per_step, steps=4)(u, v, batch_size=2)
        assert len(plan) == 4 * per_step
        for step in np.split(np.sort(plan.batches, axis=1), 4):
            assert len(np.unique(step, axis=0)) == per_step


def test_default_steps_make_an_epoch(make_pairs: MakePairs) -> None:
    u, v = make_pairs(43)
    assert len(bc.Shuffle(replacement="with")(u, v, batch_size=8)) == 5
    assert len(bc.Shuffle(replacement="with", per_step=2)(u, v, batch_size=8)) == 4


def test_more_batches_than_there_are(make_pairs: MakePairs) -> None:
    u, v = make_pairs(4)
    with pytest.raises(ValueError, match=r"batches drawn in a step must be at most C\(4, 2\) = 6; got 7"):
        bc.Shuffle(replacement="with", per_step=7)(u, v, batch_size=2)


def test_margin_parts_similar_pairs(make_pairs: MakePairs) -> None:
    u, v = make_pairs(80, 16, copies=8)
    apart = bc.Shuffle(margin=0.0)(u, v, batch_size=8)
    loose = bc.Shuffle()(u, v, batch_size=8)
    counted = (loose.batches < 8).sum(axis=1)
    assert (counted * (counted - 1) // 2).sum() > 0
    assert ((apart.batches < 8).sum(axis=1) <= 1).all()
    assert sorted(apart.batches.ravel().tolist()) == list(range(80))
    assert apart.margin_pairs == 0


def test_margin_does_not_undo_groups(make_pairs: MakePairs) -> None:
    u, v = make_pairs(60, 16, copies=6)
    plan = bc.Shuffle(margin=0.3)(u, v, batch_size=10, groups=np.arange(60) // 6)
    assert plan.group_pairs == 0


@pytest.mark.alone
def test_parting_of_similar_pairs_can_be_interrupted(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = make_pairs(16)
    monkeypatch.setattr("batchcut.selection._shuffle._part_similar", lambda *_: time.sleep(5))
    assert interrupted_after(lambda: bc.Shuffle(margin=0.1)(u, v, batch_size=4)) < 3


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"replacement": "maybe"}, ValueError, "replacement must be one of 'without', 'with', 'fixed'; got 'maybe'"),
        ({"per_step": 0, "replacement": "with"}, ValueError, "per_step must be at least 1; got 0"),
        ({"steps": 2}, ValueError, 'per_step and steps must be left alone unless replacement="with"'),
        ({"temperature": -1.0}, ValueError, "temperature must be finite and above 0; got -1.0"),
        ({"margin": True}, TypeError, "margin must be None or a number; got bool"),
    ],
)
def test_bad_settings_are_refused(settings: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        bc.Shuffle(**settings)
