"""Plain PyTorch: batches are planned from the embeddings that training computes anyway."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import batchcut as bc

torch.manual_seed(0)
kinds = torch.randn(40, 32).repeat_interleave(16, dim=0)
samples = kinds + 0.5 * torch.randn(640, 32)  # 640 samples of 40 kinds ...
x, y = (samples + 0.2 * torch.randn(640, 32) for _ in range(2))  # ... seen from two sides
dataset = TensorDataset(x, y)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

loader = bc.PlannedLoader(dataset, batch_size=32, temperature=0.05)  # a DataLoader before
for epoch in range(4):  # the first epoch is shuffled, the others are planned
    total = 0.0
    for a, b in loader:
        u, v = model(a), model(b)
        loss = bc.contrastive_loss(
            u, v, temperature=loader.temperature, background=loader.background
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loader.record(u, v)  # no extra forward pass
        total += loss.item()
    print(f"epoch {epoch}: {len(loader)} batches, mean loss {total / len(loader):.3f}")

if (plan := loader.measured_plan()) is not None:
    print(plan.summary())
