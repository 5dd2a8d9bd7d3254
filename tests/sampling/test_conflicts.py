"""Samples in conflict that would share a batch are left out of the epoch, where that is asked for."""

import copy
from typing import Any

import numpy as np
import pytest
from tests.sampling._helpers import filled, flat

from batchcut.sampling import PlannedBatchSampler, Sharding, figures_of

N, B = 60, 10


def sampler(**settings: Any) -> PlannedBatchSampler:
    """Half of the samples have one text in common, of which six batches can hold six."""
    groups = [[0, 1 + i] if i % 2 else [1 + i] for i in range(N)]
    then = "at least 24 samples are left out of" if settings.get("drop_conflicts") else "some of them share a batch"
    text = f"1 of the groups have more members than there are batches, 6, the largest 30: {then}"
    with pytest.warns(RuntimeWarning, match=text):
        return PlannedBatchSampler(filled(N), batch_size=B, groups=groups, **settings)


@pytest.mark.parametrize("shuffled_epochs", [0, 9])
def test_each_batch_is_without_conflicts_and_others_are_left_out_each_epoch(shuffled_epochs: int) -> None:
    planned = sampler(shuffled_epochs=shuffled_epochs, drop_conflicts=True)
    seen = []
    for _ in range(8):
        batches = list(planned)
        assert len(batches) == len(planned) == N // B
        assert [sum(i % 2 for i in batch) for batch in batches] == [1] * (N // B)
        assert len(set(flat(batches))) == len(flat(batches)) == N - planned.left_out == 36
        seen.append({i for i in flat(batches) if i % 2})
    assert len(set.union(*seen)) > 20
    assert planned.batch_size is None


def test_they_share_a_batch_unless_asked() -> None:
    planned = sampler(shuffled_epochs=0)
    assert sorted(flat(planned)) == list(range(N))
    assert planned.left_out == 0
    assert "plan_left_out" not in figures_of(planned)


def test_logs_say_how_many() -> None:
    planned = sampler(shuffled_epochs=0, drop_conflicts=True)
    list(planned)
    assert figures_of(planned)["plan_left_out"] == 24


def test_without_conflicts_nothing_changes() -> None:
    settings: dict[str, Any] = {"batch_size": B, "groups": np.arange(N) // 2, "shuffled_epochs": 0}
    plain, dropping = (PlannedBatchSampler(filled(N), **settings, drop_conflicts=drop) for drop in (False, True))
    assert list(plain) == list(dropping)


def test_a_state_goes_on_with_the_same_batches() -> None:
    planned = sampler(shuffled_epochs=0, drop_conflicts=True)
    batches = iter(planned)
    next(batches)
    state, rest = planned.state_dict(), list(batches)
    again = sampler(shuffled_epochs=0, drop_conflicts=True)
    again.load_state_dict(copy.deepcopy(state))
    assert list(again) == rest
    with pytest.raises(ValueError, match="state must be of a sampler with drop_conflicts = False; got True"):
        sampler(shuffled_epochs=0).load_state_dict(state)


def test_split_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="drop_conflicts must be False where batches are split, whose parts are equ"):
        PlannedBatchSampler(
            filled(N), batch_size=B, drop_conflicts=True, sharding=Sharding(rank=0, world_size=2, mode="split")
        )
