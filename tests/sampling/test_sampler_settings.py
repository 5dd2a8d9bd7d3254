"""What a sampler refuses, and copies of it."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from tests.sampling._helpers import DIM, filled

from batchcut.sampling import PlannedBatchSampler, Sharding
from batchcut.selection import Ordered


@pytest.mark.parametrize("drawn", [0, 1, 3, 8])
def test_copies_go_on_where_it_was(drawn: int) -> None:
    sampler = PlannedBatchSampler(filled(40), batch_size=5, shuffled_epochs=0, groups=np.arange(40) // 2)
    iterator = iter(sampler)
    for _ in range(drawn):
        next(iterator)
    for other in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):  # noqa: S301
        assert other.sampler._owner is other
        assert other.plan == sampler.plan
        rest = list(other)
        assert rest == list(copy.copy(iterator)) if drawn else len(rest) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 1}, "batch_size must be at least 2; got 1"),
        ({"batch_size": 21}, "batch_size must be at most 20; got 21"),
        ({"temperature": 0.0}, "temperature must be finite and above 0; got 0.0"),
        ({"seed": -1}, "seed must be at least 0; got -1"),
        ({"replan_every": 0}, "replan_every must be at least 1; got 0"),
        ({"shuffled_epochs": -1}, "shuffled_epochs must be at least 0; got -1"),
        ({"plan_ahead": -0.1}, "plan_ahead must be at least 0 and below 1; got -0.1"),
        ({"plan_ahead": 1}, "plan_ahead must be at least 0 and below 1; got 1"),
        ({"plan_ahead": float("nan")}, "plan_ahead must be at least 0 and below 1; got nan"),
        ({"multiple_of": 0}, "multiple_of must be at least 1; got 0"),
        ({"groups": [1, 2]}, r"groups must hold one entry for each of the 20 samples; got shape \(2,\)"),
        (
            {"sharding": Sharding(world_size=5)},
            "the length of the bank must be at least 25, the samples of one step, where drop_last=True; got 20",
        ),
        (
            {"sharding": Sharding(world_size=5), "drop_last": False},
            r"drop_last must be True where 20 samples cannot be shared in batches of up to 5; got False .*",
        ),
        (
            {"sharding": Sharding(world_size=3, mode="split")},
            "batch_size must be a multiple of world_size = 3 where batches are split; got 5",
        ),
        ({"selector": Ordered}, r"selector must be made first, as by Ordered\(\); got the class Ordered"),
        ({"selector": Ordered(k=5)}, r"selector must make at least 1 batches of 20 samples; got 0 by Ordered\(k=5, .*"),
        (
            {"selector": Ordered(k=4), "sharding": Sharding(world_size=2)},
            r"selector must make at least 2 batches of 20 samples; got 1 by Ordered\(k=4, .*",
        ),
    ],
)
def test_bad_settings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^{message}$"):
        PlannedBatchSampler(filled(20), **({"batch_size": 5} | arguments))


def test_settings_of_a_wrong_type() -> None:
    with pytest.raises(TypeError, match=r"^bank must be an EmbeddingBank; got Tensor$"):
        PlannedBatchSampler(torch.ones(20, DIM), batch_size=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^drop_last must be True or False; got str$"):
        PlannedBatchSampler(filled(20), batch_size=5, drop_last="short")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^selector must be a Selector; got str$"):
        PlannedBatchSampler(filled(20), batch_size=5, selector="cut")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^groups must hold integers or strings; got float64$"):
        PlannedBatchSampler(filled(20), batch_size=5, groups=np.ones(20))
    with pytest.raises(TypeError, match=r"^plan_ahead must be a number; got bool$"):
        PlannedBatchSampler(filled(20), batch_size=5, plan_ahead=True)
    with pytest.raises(TypeError, match=r"^epoch must be an integer; got float$"):
        PlannedBatchSampler(filled(20), batch_size=5).set_epoch(1.0)  # type: ignore[arg-type]


def test_a_sharding_without_processes_is_refused_when_it_comes_to_planning() -> None:
    sampler = PlannedBatchSampler(filled(20), batch_size=5, sharding=Sharding(rank=1, world_size=2))
    assert len(list(sampler)) == 2  # shuffled: the same wherever it is done
    rule = "sharding must be that of the process group, to plan together; or have together=False"
    with pytest.raises(ValueError, match=rf"^{rule}; got Sharding.* in process 0 of 1$"):
        list(sampler)
