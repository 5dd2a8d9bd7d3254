"""Stop in the middle of an epoch and go on with the same batches."""

import tempfile
from pathlib import Path

import torch
from torch.nn.functional import normalize
from torch.utils.data import TensorDataset

import batchcut as bc

torch.manual_seed(0)
x = normalize(torch.randn(200, 8), dim=1)
dataset = TensorDataset(x, normalize(x + 0.1 * torch.randn(200, 8), dim=1))


def train(checkpoint: Path, *, stop_at: int | None = None) -> list[list[int]]:
    """What is left of three epochs, up to a number of batches; returns the batches trained on."""
    loader = bc.PlannedLoader(dataset, batch_size=20, seed=0, num_workers=2)
    if checkpoint.exists():
        loader.load_state_dict(torch.load(checkpoint))
    batches: list[list[int]] = []
    for _ in range(loader.epoch, 3):
        for u, v in loader:
            loader.record(u, v)
            batches.append(loader.index.tolist())
            if len(batches) == stop_at:
                torch.save(loader.state_dict(), checkpoint)
                return batches
    return batches


with tempfile.TemporaryDirectory() as folder:
    whole = train(Path(folder, "none"))
    first = train(Path(folder, "checkpoint"), stop_at=14)  # in the second epoch, after four batches
    rest = train(Path(folder, "checkpoint"))

print(f"{len(first)} + {len(rest)} batches; the same as without a stop: {first + rest == whole}")
