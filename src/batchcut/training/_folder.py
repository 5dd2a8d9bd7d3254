"""The folder of a run: who may write there, and what is written, from settings to lines of metrics."""

import json
import os
import platform
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from batchcut._files import check_outside_runs, open_own, read_json, try_lock, write_bytes, write_json, writing
from batchcut.sampling import EmbeddingBank
from batchcut.selection import BatchPlan, typical_batches

from ._config import Config
from ._toml import config_of, read_toml, to_toml

_PACKAGES = ("batchcut", "torch", "lightning", "kornia", "pytorch-optimizer", "safetensors", "numpy", "numba")
_LEFT_BY_A_START = re.compile(r"lock|\.config\.toml\.[0-9a-f]+\.unfinished")
_PLAN = re.compile(r"epoch-\d{4,}\.npz")
_FILES_OF_LINES = ("metrics", "timings")
_TIMED = ("planning", "evaluation", "checkpoint")
_KINDS_SHOWN = 4

Observer = Callable[[Mapping[str, Any]], None]


class Lock:
    """That a folder is in use, by one process at a time; the system takes it back when the process ends."""

    def __init__(self, path: Path) -> None:
        self._file = open_own(path)
        if try_lock(self._file) is False:
            holder = self._file.read().decode(errors="replace").strip()
            self._file.close()
            raise ValueError(f"{path.parent} is in use by another process{holder and f', {holder}'}")
        self._file.truncate(0)
        self._file.write(f"{os.getpid()} on {platform.node()}\n".encode())
        self._file.flush()

    def release(self) -> None:
        """Lets others in."""
        self._file.truncate(0)
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
        if self.path.exists() and not all(_LEFT_BY_A_START.fullmatch(entry.name) for entry in self.path.iterdir()):
            rule = "be a new or empty folder; --resume goes on with one"
            raise ValueError(f"run must {rule}; got {self.path}")
        check_outside_runs("run", self.path)

    def create(self, config: Config) -> Lock:
        """Makes the folder, which must be new or empty, and takes it."""
        self.check_new()
        settings = to_toml(config).encode()  # before anything is made: there may be settings that cannot be written
        self.path.mkdir(parents=True, exist_ok=True)
        lock = Lock(self.path / "lock")
        # First of all: a folder with anything else in it can be gone on with.
        write_bytes(self.path / "config.toml", settings)
        self._make_folders()
        return lock

    def open(self) -> Lock:
        """Takes the folder of a run that was begun."""
        self._make_folders()
        return Lock(self.path / "lock")

    def _make_folders(self) -> None:
        for folder in (self.checkpoints, self.path / "plans", self.path / "embeddings"):
            if folder.is_symlink():  # files are removed there, which must not be another's
                raise ValueError(f"{folder} must be a folder of the run itself; got a link to {folder.readlink()}")
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
        rule = "be JSON, undamaged, or be deleted, since it is for the record alone"
        starts: list[object] = read_json(path, list, rule) if path.exists() else []
        write_json(path, [*starts, environment() | more])

    def save_plan(self, plan: BatchPlan, bank: EmbeddingBank, *, shown: int) -> None:
        """Keeps a plan, without the seconds that it took, and the embeddings that some of its batches were made from.

        Those of the first plan and of the last are there in the end, of about `shown` samples each.
        """
        name = f"epoch-{plan.epoch:04d}.npz"
        replace(plan, seconds=0.0).save(self.path / "plans" / name)
        if shown:
            tensors = shown_embeddings(plan, bank, most=shown)
            for place in ("first-plan", "last-plan") if self.plans() == [name] else ("last-plan",):
                self.save_embeddings(place, tensors)

    def plans(self) -> list[str]:
        """The names of the plans that are there."""
        return sorted(
            path.name for path in (self.path / "plans").iterdir() if _PLAN.fullmatch(path.name) and path.is_file()
        )

    def drop_plans(self, *, but: list[str]) -> None:
        """Removes plans made after a checkpoint, and nothing that is not a plan of ours."""
        for name in self.plans():
            if name not in but:
                (self.path / "plans" / name).unlink()

    def save_embeddings(self, name: str, tensors: dict[str, Tensor]) -> None:
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


def shown_embeddings(plan: BatchPlan, bank: EmbeddingBank, *, most: int) -> dict[str, Tensor]:
    """The rows of the bank for whole batches of about `most` samples in all.

    A quarter each of the hardest batches, the easiest, those around the median, and shuffled ones to compare with.
    "batches" holds the numbers of the plan's rows, "shuffled" the samples of the others, "index" whose rows u, v are.
    """
    each = max(1, most // (_KINDS_SHOWN * plan.batch_size))
    chosen = typical_batches(plan.losses, each)
    seen = np.random.default_rng([plan.seed, plan.epoch]).permutation(torch.nonzero(bank.seen.cpu())[:, 0].numpy())
    shuffled = seen[: min(each, len(seen) // plan.batch_size) * plan.batch_size].reshape(-1, plan.batch_size)
    used = np.unique(np.concatenate([plan.batches[chosen].ravel(), shuffled.ravel()]))
    index = torch.from_numpy(used[used >= 0])
    rows = index.to(bank.u.device)
    return {
        "epoch": torch.tensor([plan.epoch]),
        "batches": torch.from_numpy(chosen),
        "shuffled": torch.from_numpy(shuffled),
        "index": index,
        "u": bank.u[rows].half().cpu(),
        "v": bank.v[rows].half().cpu(),
    }


class Lines:
    """A file of JSON lines that can be cut back to where it was at a checkpoint."""

    def __init__(self, path: Path, *, length: int) -> None:
        self._path, self._file = path, open_own(path)
        have = self._file.seek(0, os.SEEK_END)
        if have < length:
            self._file.close()
            raise ValueError(f"{path} must hold {length} bytes, as at the checkpoint; got {have}")
        self._file.truncate(length)
        self._file.seek(0, os.SEEK_END)

    def write(self, event: Mapping[str, object]) -> None:
        """Adds a line."""
        with writing(self._path):
            self._file.write(json.dumps(event, ensure_ascii=False).encode(errors="backslashreplace") + b"\n")
            self._file.flush()

    def sync(self) -> int:
        """Makes sure that all lines are on the disk, and says how many bytes they are."""
        with writing(self._path):
            os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class Diary:
    """Writes metrics.jsonl and timings.jsonl, from the process that leads, and tells an observer.

    Args:
        observe: called with each event.
        leads: whether this process is the one that writes; the others are silent.
    """

    def __init__(self, observe: Observer, *, leads: bool) -> None:
        self._observers = [observe]
        self._leads = leads
        self._lines: dict[str, Lines] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._begun: dict[str, float] = {}

    def open(self, folder: Path, lengths: Mapping[str, int] | None = None) -> None:
        """Opens the files, cut back to where they were at a checkpoint; None: to nothing."""
        for name in _FILES_OF_LINES if self._leads else ():
            self._lines[name] = Lines(folder / f"{name}.jsonl", length=0 if lengths is None else lengths[name])

    def lengths(self) -> dict[str, int]:
        """How many bytes each file has, all of which are on the disk."""
        return {name: lines.sync() for name, lines in self._lines.items()}

    def close(self) -> None:
        """Closes the files."""
        for lines in self._lines.values():
            lines.close()

    def tell(self, event: dict[str, Any]) -> None:
        """Writes a line of metrics and tells the observers."""
        self.write(event)
        self.show(event)

    def write(self, event: dict[str, Any]) -> None:
        """Writes a line of metrics."""
        if self._leads:
            self._lines["metrics"].write(event)

    def show(self, event: dict[str, Any]) -> None:
        """Tells the observers."""
        for observe in self._observers if self._leads else ():
            observe(event)

    def tell_also(self, observe: Observer) -> None:
        """Has one more observer, from now on."""
        self._observers.append(observe)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Counts the seconds within as those of a part of the epoch."""
        self._begun[part] = time.perf_counter()
        yield
        self._seconds[part] += time.perf_counter() - self._begun.pop(part)

    def tell_seconds(self, *, epoch: int, step: int) -> None:
        """Writes where the seconds since the last such line went; what is in no part is training."""
        now = time.perf_counter()
        for part, begun in self._begun.items():
            self._seconds[part] += now - begun
            self._begun[part] = now
        parts = {name: round(self._seconds[name], 6) for name in _TIMED}
        training = self._seconds["total"] - sum(parts.values())
        if self._leads:
            event = {"event": "epoch", "epoch": epoch, "step": step, "training": round(training, 6)}
            self._lines["timings"].write(event | parts)
        self._seconds.clear()
