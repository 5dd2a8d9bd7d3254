"""All that a run needs to go on exactly: taken from a trainer, and put back into one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._checkpoint import Checkpoint
from ._config import Config
from ._optimiser import load_optimiser_state, optimiser_state
from ._toml import to_tree

if TYPE_CHECKING:
    from ._trainer import Trainer

_MAY_CHANGE = ("data", "evaluation", "keeping", "machine")
"""Settings of which the weights of the steps to come are no function, or which the data themselves show."""


def snapshot(trainer: "Trainer", lengths: Mapping[str, int]) -> Checkpoint:
    """The state of a run after a step; `lengths` says how long its files of lines are."""
    sampler, planned = trainer.batches.state(trainer.position or None)
    groups, moments = optimiser_state(trainer.bare_optimiser)
    scaler = _scaler(trainer)
    facts = {
        "settings": _lasting(trainer.config),
        "epoch": trainer.epoch,
        "position": trainer.position,
        "scores": trainer.scores,
        "sampler": sampler,
        "optimiser": groups,
        "scaler": None if scaler is None else scaler.state_dict(),
        "lengths": dict(lengths),
        "plans": trainer.folder.plans(),
    }
    tensors = _prefixed("model", trainer.bare_model.state_dict()) | _prefixed("optimiser", moments)
    tensors |= _prefixed("objective", trainer.objective.state_dict()) | _prefixed("planned", planned)
    for name, losses in (("pending", trainer.pending), ("batch_losses", trainer.batch_losses)):
        if losses:
            tensors[name] = torch.stack(losses)
    return Checkpoint(step=trainer.step, facts=facts, tensors=tensors)


def restore(trainer: "Trainer", checkpoint: Checkpoint) -> None:
    """Puts a trainer with the same settings and data where it was; others are refused with a `ValueError`."""
    place = f"the checkpoint of step {checkpoint.step} in {trainer.folder.path}"
    changed = _differences(checkpoint.facts.get("settings", {}), _lasting(trainer.config))
    if changed:
        raise ValueError(
            f"{place} must be of the settings in config.toml, but {', and '.join(changed)}: "
            "put config.toml back as it was, or begin a new run with the other settings"
        )
    try:
        _put_back(trainer, checkpoint.facts, checkpoint.tensors)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{place} must fit config.toml and the data; {reason}") from error
    trainer.step = checkpoint.step


def _put_back(trainer: "Trainer", facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    trainer.epoch, trainer.position, trainer.scores = facts["epoch"], facts["position"], facts["scores"]
    trainer.bare_model.load_state_dict(_of_prefix("model", tensors))
    trainer.objective.load_state_dict(_of_prefix("objective", tensors))
    load_optimiser_state(trainer.bare_optimiser, facts["optimiser"], _of_prefix("optimiser", tensors))
    if (scaler := _scaler(trainer)) is not None:
        scaler.load_state_dict(facts["scaler"])
    trainer.batches.load_state(facts["sampler"], _of_prefix("planned", tensors))
    if "pending" in tensors:
        trainer.pending = list(tensors["pending"].to(trainer.fabric.device))
    if "batch_losses" in tensors:
        trainer.batch_losses = list(tensors["batch_losses"].to(trainer.fabric.device))


def _lasting(config: Config) -> dict[str, Any]:
    return {name: value for name, value in to_tree(config).items() if name not in _MAY_CHANGE}


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> list[str]:
    """What is in both trees with different values, as words."""
    found = []
    for name in old.keys() & new.keys():
        if isinstance(old[name], dict) and isinstance(new[name], dict):
            found += _differences(old[name], new[name], f"{path}{name}.")
        elif old[name] != new[name]:
            found.append(f"{path}{name} was {old[name]!r} and is now {new[name]!r}")
    return sorted(found)


def _scaler(trainer: "Trainer") -> Any:
    return getattr(trainer.fabric.strategy.precision, "scaler", None)


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _of_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}
