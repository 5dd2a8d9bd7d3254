"""OSGD for each step, against a slow version."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling._helpers import DIM, data_set, pairs
from torch import Tensor
from torch.utils.data import DataLoader

from batchcut.losses import contrastive_loss
from batchcut.sampling import HardestOf
from batchcut.selection import Ordered


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 6), st.data())
def test_equals_the_slow_version(losses: list[int], k: int, data: st.DataObject) -> None:
    q = data.draw(st.integers(1, k))
    batches = list(enumerate(losses))
    slow = []
    for start in range(0, len(batches) - k + 1, k):
        candidates = batches[start : start + k]
        slow.append([candidates[i] for i in sorted(range(k), key=lambda i: (-candidates[i][1], i))[:q]])
    hardest = HardestOf(batches, lambda batch: torch.tensor(float(batch[1])), k=k, q=q)
    assert list(hardest) == slow
    assert len(hardest) == len(slow)


def test_equals_the_plan_of_ordered() -> None:
    """Without replacement and with a model at rest, the rule for each step is the selector."""
    u, v = pairs(48)
    plan = Ordered(k=3, q=2)(u, v, batch_size=4, seed=7)
    order = np.random.default_rng([1, 7, 0]).permutation(48).reshape(-1, 4)  # what the selector shuffles by
    loader = DataLoader(data_set(48), batch_sampler=order.tolist())

    def loss_of(batch: tuple[Tensor, list[Tensor]]) -> Tensor:
        return contrastive_loss(*batch[1], temperature=0.1)

    chosen = [index.tolist() for step in HardestOf(loader, loss_of, k=3, q=2) for index, _ in step]
    assert chosen == plan.batches.tolist()


def test_candidates_are_scored_without_gradient_and_the_chosen_are_trained_with() -> None:
    weight = torch.ones(DIM, requires_grad=True)
    seen = []

    def loss_of(batch: Tensor) -> Tensor:
        loss = (weight * batch).sum()
        seen.append(loss.requires_grad)
        return loss

    batches = [torch.full((DIM,), float(size)) for size in (1, 3, 2)]
    (step,) = HardestOf(batches, loss_of, k=3, q=2)
    assert seen == [False, False, False]
    torch.stack([loss_of(batch) for batch in step]).mean().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [2.5] * DIM


def test_a_loss_that_is_no_number_is_taken_last() -> None:
    losses = [1.0, torch.nan, torch.inf, -torch.inf, 2.0]
    (step,) = HardestOf(losses, torch.tensor, k=5, q=3)
    assert step == [torch.inf, 2.0, 1.0]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"^k must be at least 1; got 0$"):
        HardestOf([], torch.sum, k=0, q=1)
    with pytest.raises(ValueError, match=r"^q must be at most 2; got 3$"):
        HardestOf([], torch.sum, k=2, q=3)
    with pytest.raises(ValueError, match=r"^loss_of must give one number for a batch; got shape \(2,\)$"):
        list(HardestOf([torch.ones(2)], lambda x: x, k=1, q=1))
    with pytest.raises(TypeError, match=r"^loss_of must give a tensor; got float$"):
        list(HardestOf([torch.ones(2)], lambda x: 1.0, k=1, q=1))  # type: ignore[arg-type, return-value]
