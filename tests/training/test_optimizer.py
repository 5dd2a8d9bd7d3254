"""Optimisers and the schedule."""

import math
from typing import Literal

import pytest
import torch
from torch import nn

from batchcut.training import OptimizerSettings
from batchcut.training._optimizer import (
    build_optimizer,
    learning_rate,
    load_optimizer_state,
    optimizer_state,
    warmup_steps,
)


def test_lars_scales_weights_and_leaves_biases_and_norms_to_plain_sgd() -> None:
    linear = nn.Linear(3, 4)
    model = nn.Sequential(linear, nn.BatchNorm1d(4))
    settings = OptimizerSettings(name="lars", momentum=0.0, weight_decay=0.1)
    optimizer = build_optimizer(model, settings, 0.5)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer.step()
    weight, *others = before
    ratio = 1e-3 * weight.norm() / (math.sqrt(12 * 4) + 0.1 * weight.norm())
    expected = weight - 0.5 * ratio * (2.0 + 0.1 * weight)
    torch.testing.assert_close(linear.weight.detach(), expected)
    for parameter, old in zip(list(model.parameters())[1:], others, strict=True):
        torch.testing.assert_close(parameter.detach(), old - 0.5 * 2.0)


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_weight_decay_is_for_weights_alone(name: Literal["sgd", "adamw"]) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    groups = build_optimizer(model, OptimizerSettings(name=name, weight_decay=0.1), 0.5).param_groups
    decays = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert [decays[id(p)] for p in model.parameters()] == [0.1, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["lars", "sgd", "adamw"])
def test_a_restored_optimizer_goes_on_alike_in_any_memory_format(name: Literal["lars", "sgd", "adamw"]) -> None:
    def fresh() -> tuple[nn.Conv2d, torch.optim.Optimizer]:
        torch.manual_seed(0)
        layer = nn.Conv2d(3, 4, 3)
        layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
        return layer, build_optimizer(layer, OptimizerSettings(name=name), 0.1)

    def step(layer: nn.Conv2d, optimizer: torch.optim.Optimizer, seed: int) -> None:
        torch.manual_seed(seed)
        layer(torch.randn(2, 3, 5, 5)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    whole, stays = fresh()
    step(whole, stays, 1)
    again, restored = fresh()
    groups, tensors = optimizer_state(stays)
    again.load_state_dict(whole.state_dict())
    load_optimizer_state(restored, groups, {key: value.contiguous() for key, value in tensors.items()})
    step(whole, stays, 2)
    step(again, restored, 2)
    assert torch.equal(whole.weight, again.weight)


def test_the_rate_rises_to_the_peak_and_falls_to_zero() -> None:
    rates = [learning_rate(step, steps=100, warmup=10, peak=2.0) for step in range(101)]
    assert rates[:10] == pytest.approx([0.2 * (step + 1) for step in range(10)])
    assert rates[10] == 2.0
    assert rates[55] == pytest.approx(1.0)
    assert rates[100] == pytest.approx(0.0, abs=1e-12)


def test_a_short_run_is_not_all_warmup() -> None:
    settings = OptimizerSettings(warmup_epochs=10)
    assert warmup_steps(settings, epochs=100, steps=1000) == 100
    assert warmup_steps(settings, epochs=5, steps=50) == 5
    assert warmup_steps(OptimizerSettings(warmup_epochs=0), epochs=5, steps=50) == 0
