"""SogCLR's loss: a moving average for each sample, which knows samples by their index."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import batchcut as bc

torch.manual_seed(0)
x = torch.randn(256, 16)
dataset = TensorDataset(x, x + 0.3 * torch.randn(256, 16))
model = nn.Linear(16, 8)
loader = bc.PlannedLoader(dataset, batch_size=32, temperature=0.1, average_views=True)
averages = bc.SogCLR(len(dataset), temperature=loader.temperature, gamma=0.9)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

for epoch in range(3):
    for a, b in loader:
        u, v = model(a), model(b)
        loss = averages(loader.index, u, v)  # index: which samples these are
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loader.record(u, v)
    print(f"epoch {epoch}: the last loss is {loss.item():.3f}")
