"""How much harder planned batches are than shuffled ones, by the size of a batch."""

import torch
from torch.nn.functional import normalize

import batchcut as bc

torch.manual_seed(0)
topics = torch.randn(100, 64)[torch.arange(8192) % 100]  # 8,192 samples on 100 topics
u = normalize(topics + torch.randn(8192, 64), dim=1)
v = normalize(u + 0.1 * torch.randn(8192, 64), dim=1)

for size in (16, 64, 256, 1024):
    shuffled, planned = (selector(u, v, batch_size=size).mean_loss for selector in (bc.Shuffle(), bc.Cut()))
    print(f"batches of {size:4}: {planned / shuffled:4.1f} times the shuffled loss ({planned:.2f} and {shuffled:.2f})")
