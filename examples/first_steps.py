"""The first thirty seconds: the loss, hard batches, and the optimum."""

import torch
from torch.nn.functional import normalize

import batchcut as bc

torch.manual_seed(0)
topics = torch.randn(50, 64)[torch.arange(1000) % 50]  # 1,000 samples on 50 topics ...
u = normalize(topics + torch.randn(1000, 64), dim=1)  # ... as positive pairs of embeddings: one side
v = normalize(u + 0.1 * torch.randn(1000, 64), dim=1)  # and the other

shuffled = bc.Shuffle()(u, v, batch_size=20, seed=0)  # 50 batches of 20 at random
planned = bc.Cut()(u, v, batch_size=20, seed=0)  # and 50 that are hard to tell apart
print(f"loss of a batch: shuffled {shuffled.mean_loss:.3f}, planned {planned.mean_loss:.3f}")

loss = bc.losses.minibatch_loss(u, v, planned.batches)  # the same in torch, with gradient
whole = bc.losses.full_batch_loss(u, v)  # all 1,000 against each other, in O(n d) memory
print(f"planned batches {loss:.3f}, the whole set {whole:.3f}")

etf = bc.theory.simplex_etf(8, 16)  # where the paper's loss of 8 pairs in 16 dimensions is lowest
print(f"optimum {bc.losses.paper.contrastive_loss(etf, etf):.6f} = {bc.theory.optimal_loss(8, 16):.6f}")
