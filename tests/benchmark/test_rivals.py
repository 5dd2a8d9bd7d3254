"""Rivals of planned batches do what they say, in one loop that trains as the recipe does."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks import batch_sizes
from benchmarks.loops.losses import Memory, hardest_negatives, loss_with_negatives
from benchmarks.loops.rivals import RIVALS, Grouped, Mined, MovingAverage, Task, WithMemory, run_loop, train_by
from benchmarks.loops.runs import measured_run, write_pairs
from torch import Tensor
from torch.nn.functional import normalize

from batchcut.data import Pairs, Split
from batchcut.losses import SogCLR, contrastive_loss
from batchcut.selection import Cut
from batchcut.training import Config
from batchcut.training._model import build_model
from batchcut.training._optimizer import build_optimizer

TAU = 0.05
TRAIN = 200


@pytest.fixture
def task(split: Split, config: Config) -> Task:
    assert isinstance(split.train, Pairs)
    x, y = (torch.tensor(side).float() for side in (split.train.u, split.train.v))
    return Task(config, x, y, build_model(config.model, seed=0, inputs=(10, 9)))


def unit(*shape: int, seed: int) -> Tensor:
    return normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def slow_loss(u: Tensor, v: Tensor, seen_by_u: list[list[Tensor]], seen_by_v: list[list[Tensor]]) -> float:
    """Two-sided InfoNCE, row by row; each row has a list of further negatives."""
    total = 0.0
    for rows, others, seen in ((u, v, seen_by_u), (v, u, seen_by_v)):
        for i, row in enumerate(rows):
            terms = [math.exp(float(row @ other) / TAU) for other in [*others, *seen[i]]]
            total += math.log(sum(terms)) - float(row @ others[i]) / TAU
    return total / (2 * len(u))


def test_further_negatives_are_in_the_denominator_of_rows_that_may_see_them() -> None:
    u, v, far_u, far_v = unit(4, 5, seed=0), unit(4, 5, seed=1), unit(3, 5, seed=2), unit(3, 5, seed=3)
    closed = torch.rand(2, 4, 3, generator=torch.Generator().manual_seed(4)) < 0.4
    loss = loss_with_negatives(u, v, far_u, far_v, (closed[0], closed[1]), temperature=TAU)
    seen_by_u, seen_by_v = (
        [[row for row, shut in zip(far, closed[k, i], strict=True) if not shut] for i in range(4)]
        for k, far in enumerate((far_v, far_u))
    )
    assert float(loss) == pytest.approx(slow_loss(u, v, seen_by_u, seen_by_v), rel=1e-5)


def test_a_memory_holds_the_last_rows_without_gradient() -> None:
    memory = Memory(5, 2)
    rows = torch.arange(14.0).reshape(7, 2).requires_grad_()
    for part in ([0, 1, 2], [3, 4], [5, 6]):
        memory.add(torch.tensor(part), rows[part], -rows[part])
    assert memory.index.tolist() == [2, 3, 4, 5, 6]
    assert torch.equal(memory.u, rows[2:].detach())
    assert torch.equal(memory.v, -rows[2:].detach())
    assert not memory.u.requires_grad


def test_with_a_memory_a_row_sees_old_rows_of_all_samples_but_its_own(task: Task) -> None:
    rival = WithMemory(task, size=6)
    old_u, old_v = unit(8, 8, seed=0), unit(8, 8, seed=1)
    rival.record(torch.arange(8), old_u, old_v)
    index, u, v = torch.tensor([3, 20, 7]), unit(3, 8, seed=2), unit(3, 8, seed=3)
    loss = rival.loss(index, u, v, epoch=1, step=0)
    kept = range(2, 8)
    seen_by_u, seen_by_v = (
        [[old[k] for k in kept if k != sample] for sample in index.tolist()] for old in (old_v, old_u)
    )
    assert float(loss) == pytest.approx(slow_loss(u, v, seen_by_u, seen_by_v), rel=1e-5)
    first = rival.loss(index, u, v, epoch=0, step=0)
    assert float(first) == pytest.approx(slow_loss(u, v, [[]] * 3, [[]] * 3), rel=1e-5)


@pytest.mark.parametrize("margin", [0.0, 0.05, 0.9])
def test_a_mined_negative_is_the_most_similar_one_below_the_margin(margin: float) -> None:
    anchors, candidates = unit(30, 3, seed=0), unit(30, 3, seed=1)
    found = hardest_negatives(anchors, candidates, relative_margin=margin).tolist()
    for i, mined in enumerate(found):
        scores = [float(anchors[i] @ other) for other in candidates]
        most = scores[i] - margin * abs(scores[i])
        allowed = [j for j in range(30) if j != i and scores[j] <= most]
        assert mined == max(allowed, key=lambda j: scores[j], default=-1)


def test_where_nothing_may_be_mined_nothing_is() -> None:
    rows = torch.ones(4, 1)
    assert hardest_negatives(rows, rows, relative_margin=0.05).tolist() == [-1] * 4


def test_mined_negatives_are_embedded_anew_and_seen_by_their_side(task: Task) -> None:
    rival = Mined(task)
    everything = torch.arange(TRAIN)
    rival.record(everything, unit(TRAIN, 8, seed=0), unit(TRAIN, 8, seed=1))
    rival.batches(1)
    rival.for_u[:4], rival.for_v[:4] = torch.tensor([9, 2, -1, 9]), torch.tensor([-1, 5, 6, 0])
    index = torch.arange(4)
    u, v = (side.detach() for side in task.embed(index))
    now_u, now_v = (side.detach() for side in task.embed(everything))
    loss = rival.loss(index, u, v, epoch=1, step=0)
    seen_by_u = [[now_v[k] for k in (9, 2, 9) if k != i] for i in range(4)]
    seen_by_v = [[now_u[k] for k in (5, 6, 0) if k != i] for i in range(4)]
    assert loss.item() == pytest.approx(slow_loss(u, v, seen_by_u, seen_by_v), rel=1e-4)
    loss.backward()
    assert all(weight.grad is not None for weight in task.towers.parameters())


def test_negatives_are_mined_from_what_was_recorded(task: Task) -> None:
    rival = Mined(task)
    u, v = unit(TRAIN, 8, seed=0), unit(TRAIN, 8, seed=1)
    rival.record(torch.arange(TRAIN), u, v)
    rival.batches(1)
    assert torch.equal(rival.for_u, hardest_negatives(u, v, relative_margin=0.05))
    assert torch.equal(rival.for_v, hardest_negatives(v, u, relative_margin=0.05))


@pytest.mark.parametrize("size", [8, 16])
def test_groups_are_those_of_cut_and_fill_batches_at_random(task: Task, size: int) -> None:
    rival = Grouped(task, size=size)
    u, v = unit(TRAIN, 8, seed=0), unit(TRAIN, 8, seed=1)
    rival.record(torch.arange(TRAIN), u, v)
    batches = np.array(rival.batches(1))
    used = np.unique(batches)
    assert batches.shape == (TRAIN // 32, 32)
    assert len(used) == batches.size
    plan = Cut(rounds=1)(u[used], v[used], batch_size=size, seed=3, epoch=1, temperature=TAU)
    groups = {frozenset(group.tolist()) for group in used[plan.batches]}
    found = batches.reshape(-1, size).tolist()
    assert {frozenset(group) for group in found} == groups
    assert found != used[plan.batches].tolist()


def test_the_moving_average_is_that_of_sogclr(task: Task) -> None:
    rival, alone = MovingAverage(task, gamma=0.3), SogCLR(TRAIN, temperature=TAU, gamma=0.3)
    index = torch.tensor([4, 9, 1])
    for seed in (0, 2):
        u, v = unit(3, 8, seed=seed), unit(3, 8, seed=seed + 1)
        assert torch.equal(rival.loss(index, u, v, epoch=0, step=0), alone(index, u, v))


def test_each_rival_trains_its_own_way_and_all_take_as_many_steps(task: Task) -> None:
    before = _plain_loss(task)
    after = {}
    for name, make in RIVALS.items():
        own = replace(task, towers=build_model(task.config.model, seed=0, inputs=(10, 9)))
        optimizer = build_optimizer(own.towers, task.config.optimizer, task.config.peak_rate)
        assert run_loop(make(own), optimizer) == 3 * (TRAIN // 32)
        after[name] = _plain_loss(own)
        assert after[name] < before
    assert after.pop("shuffled, 11 epochs") == after["shuffled"], "here both have as many"
    assert after.pop("shuffled, memory of 4,096") == after["shuffled, memory of 1,024"], "there are 576 rows in all"
    assert len(set(after.values())) == len(after), "two rivals do the same"


def test_a_longer_run_is_longer(split: Split, task: Task) -> None:
    usual, longer = (train_by(name, split, task.config) for name in ("shuffled", "shuffled, 11 epochs"))
    assert (usual.steps, longer.steps) == (3 * (TRAIN // 32), 11 * (TRAIN // 32))


def _plain_loss(task: Task) -> float:
    with torch.no_grad():
        return float(contrastive_loss(*task.embed(torch.arange(TRAIN)), temperature=TAU))


@pytest.mark.parametrize(("name", "method"), [("shuffled", "shuffle"), ("default", "cut")])
def test_the_plain_loop_trains_as_the_recipe_does(split: Split, tmp_path: Path, name: str, method: str) -> None:
    write_pairs(split, tmp_path / "pairs.npz")
    config = batch_sizes.Setting("pairs", 32, method, 1e-3).config(tmp_path / "pairs.npz", seed=7)
    config = replace(config, epochs=3, model=replace(config.model, width=16, dim=8))
    run, outcome = measured_run(config), train_by(name, split, config)
    assert run["top1"] == pytest.approx(outcome.top1)
    assert run["steps"] == outcome.steps
