"""The first thirty seconds: losses, batches and the optimum."""

import torch
from torch.nn.functional import normalize

import batchcut as bc

torch.manual_seed(0)
u = normalize(torch.randn(1000, 64), dim=1)  # one side of 1,000 positive pairs ...
v = normalize(u + 0.1 * torch.randn(1000, 64), dim=1)  # ... and the other

print("two-sided InfoNCE:", bc.contrastive_loss(u, v, temperature=0.1))
print("the same in O(n d) memory:", bc.full_batch_loss(u, v, temperature=0.1))

shuffled = torch.randperm(1000).reshape(-1, 20)  # 50 batches of 20
print("what batches of 20 see of it:", bc.minibatch_loss(u, v, shuffled, temperature=0.1))

best = bc.theory.optimal_loss(8, 16)  # the lowest loss of 8 pairs in 16 dimensions
etf = bc.theory.simplex_etf(8, 16)  # and where it is reached
print("at the optimum:", bc.contrastive_loss(etf, etf), "=", best)
