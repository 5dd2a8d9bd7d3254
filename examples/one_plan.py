"""A plan of one epoch: made, looked at, saved and read again."""

import tempfile
from pathlib import Path

import torch
from torch.nn.functional import normalize

import batchcut as bc

torch.manual_seed(0)
u = normalize(torch.randn(1000, 32), dim=1)  # (N, d): one side of N positive pairs
v = normalize(u + 0.1 * torch.randn(1000, 32), dim=1)  # and the other

plan = bc.Cut(temperature=0.05)(u, v, batch_size=64, seed=0, epoch=3)
print(plan.batches.shape)  # (15, 64): indices; 40 samples sit out this epoch
print(plan.summary())

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "epoch-3.npz")
    plan.save(path)
    print("read again, it is the same:", bc.BatchPlan.load(path) == plan)
