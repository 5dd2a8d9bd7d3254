"""Optimisers that leave biases and norms alone, and the schedule of the rate."""

import math

import torch
from torch import nn

from ._config import OptimizerSettings

_LONGEST_WARMUP = 0.1
"""As a share of the run, so that a short run is not all warm-up: 10 epochs of 100 in the paper."""


def build_optimizer(model: nn.Module, settings: OptimizerSettings, rate: float) -> torch.optim.Optimizer:
    """The optimiser; weight decay, and the scaling of LARS, are for weights of two dimensions or more alone."""
    weights = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    others = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if settings.name == "adamw":
        return torch.optim.AdamW(groups, lr=rate, fused=True)
    if settings.name == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=settings.momentum, fused=True)
    from pytorch_optimizer import LARS

    return LARS(groups, lr=rate, momentum=settings.momentum)


def learning_rate(step: int, *, steps: int, warmup: int, peak: float) -> float:
    """The rate of a step from 0: it rises linearly to the peak over `warmup` steps, then falls by a half-cosine."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def warmup_steps(settings: OptimizerSettings, *, epochs: int, steps: int) -> int:
    """How many steps the warm-up takes: as many epochs as asked for, at most a tenth of the run."""
    return round(steps * min(settings.warmup_epochs / epochs, _LONGEST_WARMUP))


def optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[list[dict[str, float]], dict[str, torch.Tensor]]:
    """What an optimiser holds: the numbers of its groups, and its tensors by "parameter.name"."""
    state = optimizer.state_dict()
    groups = [{k: v for k, v in group.items() if isinstance(v, (int, float))} for group in state["param_groups"]]
    tensors = {f"{place}.{name}": value for place, held in state["state"].items() for name, value in held.items()}
    return groups, tensors


def load_optimizer_state(
    optimizer: torch.optim.Optimizer, groups: list[dict[str, float]], tensors: dict[str, torch.Tensor]
) -> None:
    """Puts back what `optimizer_state` gave, into an optimiser with the same settings."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    held: dict[int, dict[str, torch.Tensor]] = {}
    for path, tensor in tensors.items():
        place, name = path.split(".", 1)
        held.setdefault(int(place), {})[name] = _laid_out_as(parameters[int(place)], tensor)
    own = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict(
        {"state": held, "param_groups": [old | new for old, new in zip(own, groups, strict=True)]}
    )


def _laid_out_as(parameter: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in the parameter's order in memory: fused kernels walk through both as they lie there."""
    same = tensor.shape == parameter.shape
    return torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor) if same else tensor.clone()
