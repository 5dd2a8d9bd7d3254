"""How hard batches are, by selector and setting: all plans are scored by the same loss."""

import torch
from torch.nn.functional import normalize

import batchcut as bc

torch.manual_seed(0)
kinds = torch.randn(20, 64)[torch.arange(4000) % 20]  # 4,000 samples of 20 kinds ...
sorts = torch.randn(400, 64)[torch.arange(4000) % 400]  # ... of 20 sorts each
u = normalize(kinds + 0.7 * sorts + 0.7 * torch.randn(4000, 64), dim=1)
v = normalize(u + 0.1 * torch.randn(4000, 64), dim=1)

selectors: dict[str, bc.selection.Selector] = {
    "Shuffle()": bc.Shuffle(),
    "Ordered(k=5)": bc.Ordered(k=5),
    "Cut(pool=5)": bc.Cut(pool=5),
    "Cut(pool=25)": bc.Cut(pool=25),
    "Cut()": bc.Cut(),
    "Cut(rounds=1)": bc.Cut(rounds=1),
    "Cut(rounds=9)": bc.Cut(rounds=9),
    "Cut(temperature=0.02)": bc.Cut(temperature=0.02),
    "Cut(temperature=0.5)": bc.Cut(temperature=0.5),
}
for name, selector in selectors.items():
    plan = selector(u, v, batch_size=40, seed=0)
    loss = bc.losses.minibatch_loss(u, v, plan.batches)
    print(f"{name:22} loss at temperature 0.1: {loss:.3f}, {plan.coverage:.0%} of the samples")
