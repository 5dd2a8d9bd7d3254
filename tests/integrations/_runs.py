"""What the runs of all frameworks share: pairs that say which sample they are, and two processes."""

import gc
import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from tests._launch import TORCHRUN, ended
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.data import Dataset

import batchcut as bc

ROOT = Path(__file__).parent.parent.parent
N, B, DIM = 50, 8, 4
ATTEMPTS, ABORTED = 3, "terminate called without an active exception"

TRAINING: dict[str, Any] = {
    "per_device_train_batch_size": B,
    "num_train_epochs": 3,
    "learning_rate": 1e-2,
    "save_strategy": "steps",
    "save_steps": 1,
    "report_to": [],
    "use_cpu": True,
    "disable_tqdm": True,
}
"""Arguments of a short run by transformers' trainers."""

Batch = list[int]


class Pairs(Dataset[tuple[Tensor, Tensor, int]]):
    """Noisy pairs; each item ends in its own index, so that a run can say what it was given."""

    def __init__(self, count: int = N) -> None:
        random = torch.Generator().manual_seed(0)
        self.x = torch.randn(count, 8, generator=random)
        self.y = self.x + 0.3 * torch.randn(count, 8, generator=random)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int]:
        return self.x[index], self.y[index], index


class Encoder(nn.Module):
    """The same at each call."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(8, DIM)

    def forward(self, x: Tensor) -> Tensor:
        return normalize(self.layer(x), dim=1)


def as_sets(batches: Iterable[Iterable[int]]) -> set[frozenset[int]]:
    return {frozenset(batch) for batch in batches}


def rows_of(plan: bc.BatchPlan | None) -> set[frozenset[int]]:
    assert plan is not None
    return as_sets(row.tolist() for row in plan)


def flat(batches: Iterable[Sequence[int]]) -> list[int]:
    return sorted(index for batch in batches for index in batch)


def replanned(state: dict[str, Any], **settings: Any) -> set[frozenset[int]]:
    """The batches that a fresh plan from a saved bank would have, in the epoch of a saved sampler."""
    bank = bc.EmbeddingBank(len(state["bank"]["u"]))
    bank.load_state_dict(state["bank"])
    sampler = bc.PlannedBatchSampler(bank, batch_size=state["sampler"]["batch_size"], **settings)
    sampler.set_epoch(state["sampler"]["epoch"])
    list(sampler)
    return rows_of(sampler.plan)


def planned_in(state: dict[str, Any]) -> set[frozenset[int]]:
    """The batches of the plan in a saved sampler."""
    rows = np.frombuffer(state["sampler"]["batches"], "<i4").reshape(-1, state["sampler"]["batch_size"])
    return as_sets(row[row >= 0].tolist() for row in rows)


def completed(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command of several processes to its end; again, if torch has aborted one of them at its exit.

    What is left of a process group when the interpreter ends, such as a model in a reference cycle, makes torch end the
    process by `std::terminate` now and then, after all the work is done.
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    for _ in range(ATTEMPTS):
        done = ended(command, cwd=ROOT, env=environment)
        if done.returncode == 0 or ABORTED not in done.stderr:
            break
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done


def in_two_processes(module: str, folder: Path) -> list[Any]:
    """What `python -m module folder` left in rank0.json and rank1.json, run by torchrun in two processes."""
    completed([*TORCHRUN, "-m", module, str(folder)])
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]


def end_together() -> None:
    """Ends the process group when nothing is left that belongs to it, and all are done."""
    gc.collect()
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def leave(folder: Path, outcome: Any) -> None:
    """Leaves what this process saw for the test."""
    (folder / f"rank{os.environ['RANK']}.json").write_text(json.dumps(outcome))
