"""How large random batches would have to be to teach as much as planned ones of 10."""

import numpy as np

import batchcut as bc

rng = np.random.default_rng(0)
topics = 2 * rng.standard_normal((20, 8))
u = topics[rng.integers(0, 20, 600)] + rng.standard_normal((600, 8))
v = u + 0.5 * rng.standard_normal((600, 8))

for temperature in (0.5, 0.2, 0.1, 0.05):
    plan = bc.Cut(temperature=temperature)(u, v, batch_size=10).measured(u, v)
    loss, size = plan.mean_loss, plan.effective
    print(f"τ = {temperature}: mean loss {loss:.2f}, effective batch size {size}")
