"""A plan of a set that lies in files, made cell by cell within the memory given."""

import tempfile
from pathlib import Path

import numpy as np

from batchcut.scale import open_pair_files, plan_in_cells

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    rng = np.random.default_rng(0)
    for shard in range(4):  # as an encoder would write them
        u = rng.standard_normal((2500, 32))
        np.save(folder / f"u-{shard}.npy", u.astype(np.float16))
        np.save(folder / f"v-{shard}.npy", (u + 0.3 * rng.standard_normal(u.shape)).astype(np.float16))

    pairs = open_pair_files(sorted(folder.glob("u-*.npy")), sorted(folder.glob("v-*.npy")))
    plan = plan_in_cells(pairs, parts=folder / "parts", batch_size=64, temperature=0.05, memory=500_000_000)
    print(plan.batches.shape)  # (156, 64): sample i is row i of all shards together
    print(plan.summary())
