"""WebDataset tars rewritten in the order of a plan, and a training that reads them."""

import tempfile
from pathlib import Path

import numpy as np
import torch
import webdataset
from torch import nn
from torch.utils.data import DataLoader

import batchcut as bc
from batchcut.scale import reshard, write_plan_table

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    kinds = np.random.default_rng(0).standard_normal((20, 16))
    x = kinds.repeat(32, axis=0) + 0.5 * np.random.default_rng(1).standard_normal((640, 16))
    for shard in range(4):  # WebDataset tars, as they are
        with webdataset.TarWriter(str(folder / f"data-{shard}.tar")) as tar:
            for key in range(160):
                tar.write({"__key__": f"{key:04}", "x.npy": x[160 * shard + key].astype(np.float32)})
    tars = sorted(folder.glob("data-*.tar"))

    plan = bc.Cut()(x, x + 0.1 * np.random.default_rng(2).standard_normal(x.shape), batch_size=32)
    write_plan_table(plan, folder / "plan.parquet", shards=tars)  # with the file and the key of each sample
    made = reshard(folder / "plan.parquet", tars, folder / "planned", ranks=2, batches_per_shard=5)
    print(made.shards, made.batches)  # four shards of five batches each: two for each of two processes

    urls = [str(made.folder / shard) for shard in made.shards]
    dataset = webdataset.WebDataset(urls, shardshuffle=False, nodesplitter=webdataset.split_by_node)
    batches = dataset.decode().to_tuple("x.npy").batched(made.batch_size, partial=False)

    torch.manual_seed(0)
    tower = nn.Linear(16, 8)
    optimizer = torch.optim.SGD(tower.parameters(), lr=0.5)
    for epoch in range(3):
        losses = []
        for (batch,) in DataLoader(batches, batch_size=None):
            views = torch.as_tensor(batch) + 0.1 * torch.randn(2, *batch.shape)
            loss = bc.contrastive_loss(tower(views[0]), tower(views[1]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: {len(losses)} batches, mean loss {np.mean(losses):.2f}")
