"""Plans by the mean of two random views."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling._helpers import DIM, Spy, filled, flat, pairs
from torch.nn.functional import normalize
from torch.testing import assert_close

from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, mean_of_views
from batchcut.selection import Cut


@given(st.integers(1, 20), st.integers(0, 99))
def test_the_mean_is_a_unit_vector_as_near_to_one_view_as_to_the_other(n: int, seed: int) -> None:
    u, v = pairs(n, seed=seed)
    mean = mean_of_views(u, v)
    assert_close(mean.norm(dim=1), torch.ones(n))
    assert_close((mean * u).sum(1), (mean * v).sum(1))
    assert_close((mean * u).sum(1), ((1 + (u * v).sum(1)) / 2).sqrt())
    assert_close(mean_of_views(v, u), mean)


def test_lengths_of_views_do_not_matter() -> None:
    u, v = pairs(6)
    lengths = torch.tensor([[0.01], [0.5], [1.0], [2.0], [30.0], [1e4]])
    assert_close(mean_of_views(lengths * u, v / lengths), mean_of_views(u, v))
    assert torch.equal(mean_of_views(u, v), normalize(u + v, dim=1))  # unit rows are taken as they are


def test_views_that_cancel_leave_the_first() -> None:
    u, _ = pairs(4)
    assert_close(mean_of_views(u, -u), u)
    assert mean_of_views(u.half(), -u.half()).dtype == torch.float16


@pytest.mark.parametrize("in_a_file", [False, True])
@pytest.mark.parametrize("seen", [9, 12])
def test_the_selector_gets_the_mean_on_both_sides(tmp_path: Path, seen: int, in_a_file: bool) -> None:
    calls: list[Any] = []
    bank = EmbeddingBank(12, DIM, path=tmp_path / "bank" if in_a_file else None)
    u, v = pairs(12)
    bank.record(torch.arange(seen), u[:seen], v[:seen])
    sampler = PlannedBatchSampler(bank, batch_size=4, selector=Spy(calls=calls), shuffled_epochs=0, average_views=True)
    assert sorted(flat(sampler)) == list(range(12))
    (call,) = calls
    assert torch.equal(call["u"], call["v"])
    assert_close(call["u"][:seen], normalize(u[:seen] + v[:seen], dim=1))
    assert_close(call["u"].norm(dim=1), torch.ones(12))
    assert torch.equal(bank.u[:seen], u[:seen])  # the bank keeps the views


def test_a_plan_by_the_mean_does_not_depend_on_which_view_came_first() -> None:
    bank, turned = filled(60), EmbeddingBank(60, DIM)
    turned.record(torch.arange(60), bank.v, bank.u)
    settings: Any = {"batch_size": 6, "selector": Cut(), "shuffled_epochs": 0}
    first, second = (list(PlannedBatchSampler(b, average_views=True, **settings)) for b in (bank, turned))
    assert first == second
    assert first != list(PlannedBatchSampler(bank, **settings))


def test_a_plan_by_the_mean_is_measured_by_the_views() -> None:
    bank = filled(60)
    sampler = PlannedBatchSampler(bank, batch_size=6, selector=Cut(), shuffled_epochs=0, average_views=True)
    assert len(list(sampler)) == 10
    plan = sampler.measured_plan()
    assert plan is not None
    assert plan.effective == plan.measured(bank.u, bank.v).effective
    mean = mean_of_views(bank.u, bank.v)
    assert plan.effective != plan.measured(mean, mean).effective
