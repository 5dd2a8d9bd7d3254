"""All that a run needs to go on exactly: taken from a trainer, written, read, and put back into one.

Tensors are in safetensors, all else in JSON, which names the tensors' checksum and is written last. By hand: no pickle
is loaded, and a file that was cut or altered is found.
"""

import json
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from batchcut._errors import check_integer, wrong_type
from batchcut._files import json_of, reading, sync_folder, write_bytes, write_json

from ._config import Config
from ._optimizer import load_optimizer_state, optimizer_state
from ._toml import to_tree

if TYPE_CHECKING:
    from ._trainer import Trainer

_FORMAT = "batchcut checkpoint 1"

_MAY_CHANGE = ("data", "evaluation", "keeping", "machine")
"""Settings of which the weights of the steps to come are no function, or which the data themselves show."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """All that a run needs to go on.

    Attributes:
        step: how many steps were taken.
        facts: plain values, as JSON holds them.
        tensors: by name.
    """

    step: int
    facts: dict[str, Any]
    tensors: dict[str, Tensor]


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, keep: int) -> None:
    """Writes a checkpoint and removes all but the newest `keep`.

    A checkpoint counts once its JSON is there. That goes first when it is removed, so that none is ever half.
    """
    name = f"step-{checkpoint.step:08d}"
    content = save({key: value.detach().cpu().contiguous() for key, value in checkpoint.tensors.items()})
    write_bytes(folder / f"{name}.safetensors", content)
    seal = {"format": _FORMAT, "step": checkpoint.step, "bytes": len(content), "crc32": zlib.crc32(content)}
    write_json(folder / f"{name}.json", seal | {"facts_crc32": _sum(checkpoint.facts), "facts": checkpoint.facts})
    for old in checkpoint_steps(folder)[:-keep]:
        remove_checkpoint(folder, old)
    sync_folder(folder)


def remove_checkpoint(folder: Path, step: int) -> None:
    """Removes a checkpoint."""
    for suffix in ("json", "safetensors"):
        (folder / f"step-{step:08d}.{suffix}").unlink(missing_ok=True)


def checkpoint_steps(folder: Path) -> list[int]:
    """The steps of the checkpoints that are there, ascending."""
    numbers = (path.stem.removeprefix("step-") for path in folder.glob("step-*.json"))
    return sorted(int(number) for number in numbers if number.isdecimal())


def load_checkpoint(folder: Path, step: int) -> Checkpoint:
    """Reads a checkpoint; one that is not as it was written is refused with a `ValueError`."""
    path = folder / f"step-{step:08d}.json"
    tensors = path.with_suffix(".safetensors")
    with reading(path, "be of an undamaged checkpoint", found=""):
        if not tensors.is_file():
            raise ValueError(f"no {tensors.name} beside it")
        seal, content = json_of(path.read_text(encoding="utf-8"), dict), tensors.read_bytes()
        if seal["format"] != _FORMAT:
            raise ValueError(f"format {seal['format']!r} is not {_FORMAT!r}")
        if len(content) != seal["bytes"]:
            raise ValueError(f"{len(content)} bytes where {seal['bytes']} were written")
        facts = dict(seal["facts"])
        if zlib.crc32(content) != seal["crc32"] or _sum(facts) != seal.get("facts_crc32", _sum(facts)):
            raise ValueError("its checksum is another")
        return Checkpoint(step=int(seal["step"]), facts=facts, tensors=load(content))


def last_good_checkpoint(folder: Path) -> Checkpoint:
    """The newest checkpoint that is whole; a warning names each newer one that is not."""
    damaged = []
    for step in reversed(checkpoint_steps(folder)):
        try:
            checkpoint = load_checkpoint(folder, step)
        except ValueError as error:
            damaged.append(str(error))
            continue
        for message in damaged:
            warnings.warn(f"{message}; going on from step {step}", RuntimeWarning, stacklevel=2)
        return checkpoint
    raise ValueError(f"{folder} must hold a checkpoint to go on from; got {'; '.join(damaged) or 'none'}")


def _sum(facts: dict[str, Any]) -> int:
    """The checksum of plain values, the same before they are written as JSON and after."""
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())


def snapshot(trainer: "Trainer", lengths: Mapping[str, int]) -> Checkpoint:
    """The state of a run after a step; `lengths` says how long its files of lines are."""
    sampler, planned = trainer.batches.state(trainer.position or None)
    groups, moments = optimizer_state(trainer.bare_optimizer)
    scaler = _scaler(trainer)
    facts = {
        "settings": _lasting(trainer.config),
        "epoch": trainer.epoch,
        "position": trainer.position,
        "scores": trainer.scores,
        "sampler": sampler,
        "optimizer": groups,
        "scaler": None if scaler is None else scaler.state_dict(),
        "lengths": dict(lengths),
        "plans": trainer.folder.plans(),
    }
    tensors = _prefixed("model", trainer.bare_model.state_dict()) | _prefixed("optimizer", moments)
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
    except Exception as error:  # whatever a library makes of values that it did not write
        reason = " ".join(str(error).split())
        raise ValueError(f"{place} must fit config.toml and the data; {reason}") from error
    trainer.step = checkpoint.step


def _put_back(trainer: "Trainer", facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    trainer.epoch = check_integer("epoch", facts["epoch"], at_least=0, at_most=trainer.config.epochs)
    trainer.position = check_integer("position", facts["position"], at_least=0)
    trainer.scores = facts["scores"]
    for name, length in facts["lengths"].items():
        check_integer(f"lengths.{name}", length, at_least=0)
    if not isinstance(facts["plans"], list):
        raise wrong_type("plans", "be a list of names", facts["plans"])
    trainer.bare_model.load_state_dict(of_prefix("model", tensors))
    trainer.objective.load_state_dict(of_prefix("objective", tensors))
    load_optimizer_state(trainer.bare_optimizer, facts["optimizer"], of_prefix("optimizer", tensors))
    if (scaler := _scaler(trainer)) is not None:
        scaler.load_state_dict(facts["scaler"])
    trainer.batches.load_state(facts["sampler"], of_prefix("planned", tensors))
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


def of_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with "prefix.", without it."""
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}
