"""Plain PyTorch: a bank, a sampler, a loader."""

import torch
from torch import nn
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, TensorDataset

import batchcut as bc

torch.manual_seed(0)
kinds = torch.randn(40, 32).repeat_interleave(16, dim=0)  # 640 samples of 40 kinds, hard to tell apart within a kind
x, y = kinds + 0.5 * torch.randn(640, 32), kinds + 0.5 * torch.randn(640, 32)
dataset = TensorDataset(x, y)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

bank = bc.EmbeddingBank(len(dataset), dim=16)
sampler = bc.PlannedBatchSampler(bank, batch_size=32, selector=bc.Cut(temperature=0.1), seed=0)
loader = DataLoader(bc.Indexed(dataset), batch_sampler=sampler)  # yields (index, batch)

for epoch in range(4):
    sampler.set_epoch(epoch)  # the first epoch is shuffled, the others are planned
    total = 0.0
    for index, (a, b) in loader:
        u, v = normalize(model(a), dim=1), normalize(model(b), dim=1)
        loss = bc.contrastive_loss(u, v, temperature=0.1)
        bank.record(index, u, v)  # no extra forward pass
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.item()
    print(f"epoch {epoch}: {len(loader)} batches, mean loss {total / len(loader):.3f}")

if sampler.plan is not None:
    print(sampler.plan.summary())
