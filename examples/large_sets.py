"""Embeddings in files, planned in cells; tars rewritten in that order; a training from them."""

import tempfile
from pathlib import Path

import numpy as np
import torch
import webdataset
from torch import nn
from torch.utils.data import DataLoader

import batchcut as bc
from batchcut.scale import open_pair_files, plan_in_cells, reshard, write_plan_table

rng = np.random.default_rng(0)
kinds = rng.standard_normal((20, 1, 16)) + 0.5 * rng.standard_normal((20, 32, 16))

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for shard, x in enumerate(kinds.reshape(4, 160, 16).astype(np.float16)):
        # Embeddings as an encoder would write them, beside the tars that hold the samples.
        np.save(folder / f"u-{shard}.npy", x)
        other = x + 0.1 * rng.standard_normal(x.shape)
        np.save(folder / f"v-{shard}.npy", other.astype(np.float16))
        with webdataset.TarWriter(str(folder / f"data-{shard}.tar")) as tar:
            for key, row in enumerate(x):
                tar.write({"__key__": f"{key:04}", "x.npy": row})

    pairs = open_pair_files(sorted(folder.glob("u-*.npy")), sorted(folder.glob("v-*.npy")))
    plan = plan_in_cells(pairs, parts=folder / "parts", batch_size=32, memory=500_000_000)

    tars = sorted(folder.glob("data-*.tar"))  # sample i of all tars is row i of all shards
    write_plan_table(plan, folder / "plan.parquet", shards=tars)
    made = reshard(folder / "plan.parquet", tars, folder / "planned", ranks=2, batches_per_shard=5)
    print(made.shards, made.batches)  # four shards of five batches: two for each of two processes

    urls = [str(made.folder / shard) for shard in made.shards]
    by_rank = webdataset.split_by_node
    dataset = webdataset.WebDataset(urls, shardshuffle=False, nodesplitter=by_rank)
    batches = dataset.decode().to_tuple("x.npy").batched(made.batch_size, partial=False)
    tower = nn.Linear(16, 8)
    optimizer = torch.optim.SGD(tower.parameters(), lr=0.5)
    for (batch,) in DataLoader(batches, batch_size=None):
        views = torch.as_tensor(batch).float() + 0.1 * torch.randn(2, *batch.shape)
        loss = bc.contrastive_loss(tower(views[0]), tower(views[1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{len(plan)} batches of {made.batch_size}, the last with loss {loss.item():.2f}")
