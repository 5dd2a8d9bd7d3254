"""Stop in the middle of an epoch and go on with the same batches."""

import tempfile
from pathlib import Path

import torch
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, TensorDataset

import batchcut as bc

torch.manual_seed(0)
x = normalize(torch.randn(200, 8), dim=1)
dataset = bc.Indexed(TensorDataset(x, normalize(x + 0.1 * torch.randn(200, 8), dim=1)))


def start(checkpoint: Path) -> tuple[bc.EmbeddingBank, bc.PlannedBatchSampler]:
    """A new bank and a new sampler, or those of a checkpoint."""
    bank = bc.EmbeddingBank(len(dataset), dim=8)
    sampler = bc.PlannedBatchSampler(bank, batch_size=20, seed=0)
    if checkpoint.exists():
        state = torch.load(checkpoint)
        bank.load_state_dict(state["bank"])
        sampler.load_state_dict(state["sampler"])
    return bank, sampler


def train(checkpoint: Path, *, stop_at: tuple[int, int] | None = None) -> list[list[int]]:
    """Three epochs, or what is left of them; returns the batches trained on."""
    bank, sampler = start(checkpoint)
    done = sampler.state_dict()["position"]  # of the epoch under way
    batches = []
    for epoch in range(sampler.epoch, 3):
        sampler.set_epoch(epoch)  # the epoch of the checkpoint goes on where it was
        for index, (u, v) in DataLoader(dataset, batch_sampler=sampler):
            bank.record(index, u, v)
            batches.append(index.tolist())
            done += 1
            if (epoch, done) == stop_at:
                torch.save({"bank": bank.state_dict(), "sampler": sampler.state_dict(position=done)}, checkpoint)
                return batches
        done = 0
    return batches


with tempfile.TemporaryDirectory() as folder:
    whole = train(Path(folder, "none"))
    first = train(Path(folder, "checkpoint"), stop_at=(1, 4))  # in the second epoch, after four batches
    rest = train(Path(folder, "checkpoint"))

print(f"{len(first)} + {len(rest)} batches; the same as without a stop: {first + rest == whole}")
