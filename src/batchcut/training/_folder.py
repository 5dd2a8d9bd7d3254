"""The folder of a run: who may write there, and what is written."""

import fcntl
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import torch
from safetensors.torch import save

from batchcut._files import write_bytes, write_json
from batchcut.selection import BatchPlan

from ._config import Config
from ._toml import config_of, read_toml, to_toml

_PACKAGES = ("batchcut", "torch", "lightning", "kornia", "pytorch-optimizer", "safetensors", "numpy", "numba")
_LEFT_BY_A_START = {"lock", ".config.toml.unfinished"}


class Lock:
    """That a folder is in use, by one process at a time; the system takes it back when the process ends."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read().strip()
            self._file.close()
            raise ValueError(f"{path.parent} is in use by another process{holder and f', {holder}'}") from error
        self._file.truncate(0)
        self._file.write(f"{os.getpid()} on {platform.node()}\n")
        self._file.flush()

    def release(self) -> None:
        """Lets others in."""
        self._file.truncate(0)
        self._file.close()


class Lines:
    """A file of JSON lines that can be cut back to where it was at a checkpoint."""

    def __init__(self, path: Path, *, length: int | None = None) -> None:
        self._file: IO[bytes] = path.open("ab")
        if length is not None:
            have = self._file.seek(0, os.SEEK_END)
            if have < length:
                self._file.close()
                raise ValueError(f"{path} must hold {length} bytes, as at the checkpoint; got {have}")
            self._file.truncate(length)
            self._file.seek(0, os.SEEK_END)

    def write(self, event: Mapping[str, object]) -> None:
        """Adds a line."""
        self._file.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")
        self._file.flush()

    def sync(self) -> int:
        """Makes sure that all lines are on the disk, and says how many bytes they are."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class RunFolder:
    """RUN/ with config.toml, environment.json, metrics.jsonl, timings.jsonl, plans/, embeddings/ and checkpoints/.

    Nothing but timings.jsonl, environment.json and result.json holds seconds, so that all else comes out the same to
    the byte when the run is repeated, or killed and resumed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are."""
        return self.path / "checkpoints"

    def check_new(self) -> None:
        """Refuses a folder that holds anything, but for what a process leaves that is killed as it begins."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"run must be a folder; got {self.path}, a file")
        if self.path.exists() and {entry.name for entry in self.path.iterdir()} - _LEFT_BY_A_START:
            rule = "be a new or empty folder; --resume goes on with one"
            raise ValueError(f"run must {rule}; got {self.path}")

    def create(self, config: Config) -> Lock:
        """Makes the folder, which must be new or empty, and takes it."""
        self.check_new()
        self.path.mkdir(parents=True, exist_ok=True)
        lock = Lock(self.path / "lock")
        # First of all: a folder with anything else in it can be gone on with.
        write_bytes(self.path / "config.toml", to_toml(config).encode())
        self._make_folders()
        return lock

    def open(self) -> Lock:
        """Takes the folder of a run that was begun."""
        lock = Lock(self.path / "lock")
        self._make_folders()
        return lock

    def _make_folders(self) -> None:
        for folder in (self.checkpoints, self.path / "plans", self.path / "embeddings"):
            folder.mkdir(exist_ok=True)

    def config(self) -> Config:
        """The settings of the run."""
        path = self.path / "config.toml"
        if not path.is_file():
            raise ValueError(f"run must be the folder of a run, with its config.toml; got {self.path}")
        return config_of(read_toml(path), source=str(path))

    def add_environment(self, **more: object) -> None:
        """Adds what this process runs on to environment.json, a list with an entry for each start."""
        path = self.path / "environment.json"
        try:
            starts: list[object] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        except ValueError as error:
            raise ValueError(
                f"{path} must be JSON; {error}: what it holds is for the record, so that it can be deleted"
            ) from error
        write_json(path, [*starts, environment() | more])

    def save_plan(self, plan: BatchPlan) -> None:
        """Keeps a plan, without the seconds that it took."""
        replace(plan, seconds=0.0).save(self.path / "plans" / self.plan_name(plan))

    def plan_name(self, plan: BatchPlan) -> str:
        """The name of a plan's file."""
        return f"epoch-{plan.epoch:04d}.npz"

    def plans(self) -> list[str]:
        """The names of the plans that are there."""
        return sorted(path.name for path in (self.path / "plans").glob("epoch-*.npz"))

    def drop_plans(self, *, but: list[str]) -> None:
        """Removes plans made after a checkpoint."""
        for path in (self.path / "plans").iterdir():
            if path.name not in but:
                path.unlink()

    def save_embeddings(self, name: str, tensors: dict[str, torch.Tensor]) -> None:
        """Keeps embeddings under a name."""
        write_bytes(self.path / "embeddings" / f"{name}.safetensors", save(tensors))


def environment() -> dict[str, Any]:
    """What this process runs on."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "versions": versions,
        "processors": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "command": sys.argv,
    }
