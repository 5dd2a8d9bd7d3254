"""Small runs that the tests share."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from batchcut.selection import BatchPlan
from batchcut.training import (
    Config,
    DataSettings,
    EvaluationSettings,
    KeepingSettings,
    MachineSettings,
    ModelSettings,
    ObjectiveSettings,
    OptimizerSettings,
    SelectionSettings,
)

SAMPLES, WIDTH = 96, 12


def write_pairs(path: Path, *, samples: int = SAMPLES, tests: int = 24, seed: int = 0) -> Path:
    """A file of pairs whose sides share most of what they say."""
    rng = np.random.default_rng(seed)
    topic = rng.standard_normal((samples + tests, WIDTH))
    u, v = (topic + 0.3 * rng.standard_normal(topic.shape) for _ in range(2))
    arrays = {"train_u": u[:samples], "train_v": v[:samples], "test_u": u[samples:], "test_v": v[samples:]}
    np.savez(path, **{name: array.astype(np.float32) for name, array in arrays.items()})  # type: ignore[arg-type]
    return path


def pairs_config(path: Path, **changes: Any) -> Config:
    """Settings of a run of a second on pairs; `changes` are fields of Config."""
    settings: dict[str, Any] = {
        "epochs": 4,
        "batch_size": 8,
        "data": DataSettings(name=f"pairs:{path}"),
        "model": ModelSettings(encoder="mlp", width=16, projection=0, dim=8, two_towers=True),
        "objective": ObjectiveSettings(loss="infonce"),
        "optimizer": OptimizerSettings(name="adamw", learning_rate=1e-2, weight_decay=0.0),
        "keeping": KeepingSettings(log_every=3, checkpoint_steps=5, embeddings=16),
        "evaluation": EvaluationSettings(every_steps=7),
        "machine": MachineSettings(accelerator="cpu"),
    }
    return Config(**settings | changes)


def image_config(**changes: Any) -> Config:
    """Settings of a run of a few seconds on the digits, with batch norm, views and SogCLR's averages."""
    settings: dict[str, Any] = {
        "epochs": 3,
        "batch_size": 16,
        "data": DataSettings(name="digits", train=96, test=40),
        "model": ModelSettings(width=4, projection=16, dim=8),
        "objective": ObjectiveSettings(loss="sogclr"),
        "optimizer": OptimizerSettings(name="lars"),
        "keeping": KeepingSettings(log_every=2, checkpoint_steps=4, embeddings=16),
        "machine": MachineSettings(accelerator="cpu"),
    }
    return Config(**settings | changes)


def selecting(selector: Any, **more: Any) -> SelectionSettings:
    return SelectionSettings(selector=selector, **more)


def lines(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The metrics of a run; of one kind of event."""
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [event for event in events if kind in (None, event["event"])]


def outcome(run: Path) -> dict[str, bytes]:
    """All that must be the same to the byte, however often the run was stopped."""
    names = ["config.toml", "metrics.jsonl", "model.safetensors"]
    folders = [path for name in ("plans", "embeddings") for path in sorted((run / name).iterdir())]
    last = max((run / "checkpoints").glob("*.safetensors"))
    return {str(path.relative_to(run)): path.read_bytes() for path in [*(run / name for name in names), *folders, last]}


def plans(run: Path) -> list[BatchPlan]:
    return [BatchPlan.load(path) for path in sorted((run / "plans").iterdir())]


def environment() -> dict[str, str]:
    """For processes of their own: one thread each, and the warnings that matter."""
    return os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def batchcut(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "batchcut", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, **options)
