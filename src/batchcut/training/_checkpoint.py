"""Checkpoints: tensors in safetensors, all else in JSON, which names the tensors' checksum and is written last."""

import json
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from batchcut._files import sync_folder, write_bytes, write_json

_FORMAT = "batchcut checkpoint 1"


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
    try:
        seal = json.loads(path.read_text(encoding="utf-8"))
        content = path.with_suffix(".safetensors").read_bytes()
        if seal["format"] != _FORMAT:
            raise ValueError(f"format {seal['format']!r} is not {_FORMAT!r}")
        if len(content) != seal["bytes"]:
            raise ValueError(f"{len(content)} bytes where {seal['bytes']} were written")
        facts = dict(seal["facts"])
        if zlib.crc32(content) != seal["crc32"] or _sum(facts) != seal.get("facts_crc32", _sum(facts)):
            raise ValueError("its checksum is another")
        return Checkpoint(step=int(seal["step"]), facts=facts, tensors=load(content))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"checkpoint {path.with_suffix('')} is damaged: {error}") from error


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
