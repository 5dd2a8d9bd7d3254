"""SogCLR's loss: a moving average for each sample, which knows samples by their index."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import batchcut as bc

torch.manual_seed(0)
x = torch.randn(256, 16)
dataset = TensorDataset(x, x + 0.3 * torch.randn(256, 16))
model = nn.Linear(16, 8)
averages = bc.SogCLR(len(dataset), temperature=0.1, gamma=0.9)
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)

for epoch in range(3):
    for index, (a, b) in DataLoader(bc.Indexed(dataset), 32, shuffle=True):
        loss = averages(index, model(a), model(b))  # index: which samples these are
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"epoch {epoch}: the last loss is {loss.item():.3f}")
