"""Training from resharded tars in two real processes, each with its own shards, read by webdataset."""

import datetime
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import webdataset
from tests.scale._shards import write_tars
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import batchcut as bc
from batchcut.losses import gathered_contrastive_loss
from batchcut.scale import reshard

N, B, WORLD, EPOCHS = 272, 16, 2, 8
LIMIT = datetime.timedelta(seconds=120)


def rows() -> Tensor:
    """Samples of a few kinds, the same in all processes."""
    random = torch.Generator().manual_seed(0)
    kinds = torch.randn(17, 6, generator=random).repeat_interleave(16, 0)
    return kinds + 0.3 * torch.randn(N, 6, generator=random)


def train(urls: list[str], size: int, *, split: bool) -> dict[str, Any]:
    """What this process saw, in each epoch, and what became of the loss and the tower."""
    torch.manual_seed(0)
    x, tower = rows(), DistributedDataParallel(nn.Linear(6, 8))
    optimizer = torch.optim.SGD(tower.parameters(), lr=0.5)
    loss_of = gathered_contrastive_loss if split else bc.contrastive_loss
    dataset = webdataset.WebDataset(urls, shardshuffle=False, nodesplitter=webdataset.split_by_node)
    loader = DataLoader(dataset.to_tuple("txt").batched(size, partial=False), batch_size=None, num_workers=1)
    seen: list[list[list[int]]] = []
    losses: list[float] = []
    for _ in range(EPOCHS):
        seen.append([])
        total = 0.0
        for (texts,) in loader:
            index = [int(text.split()[1]) for text in texts]
            u, v = tower(torch.cat([x[index], x[index] + 0.1 * torch.randn(len(index), 6)])).chunk(2)
            loss = loss_of(u, v)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen[-1].append(index)
            total += loss.item()
        losses.append(total)
    return {"seen": seen, "losses": losses, "tower": tower.module.weight.detach()}


def process(rank: int, folder: str, shards: dict[str, tuple[list[str], int]]) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(WORLD)}  # as torchrun does: workers of loaders know no group
    place = f"file://{folder}/meet"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=WORLD, timeout=LIMIT)
    found = {mode: train(urls, size, split=mode == "split") for mode, (urls, size) in shards.items()}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_train_on_planned_batches(tmp_path: Path) -> None:
    x = rows()
    other = x + 0.01 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    plan = bc.Cut(temperature=0.1)(x.numpy(), other.numpy(), batch_size=B)
    tars = write_tars(tmp_path, 100, N - 100)
    shards, left = {}, {}
    for mode in ("whole", "split"):
        made = reshard(plan, tars, tmp_path / mode, ranks=WORLD, mode=mode, batches_per_shard=3)
        shards[mode] = ([str(made.folder / name) for name in made.shards], made.batch_size)
        left[mode] = [plan.batches[row].tolist() for row in made.left_out]
    spawn(process, args=(str(tmp_path), shards), nprocs=WORLD)
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]
    planned = sorted(plan.batches.tolist())
    assert (len(planned), len(left["whole"]), left["split"]) == (17, 1, [])
    for epoch in range(EPOCHS):
        first, second = (rank["whole"]["seen"][epoch] for rank in ranks)
        assert len(first) == len(second)
        assert sorted(first + second + left["whole"]) == planned
        parts = zip(*(rank["split"]["seen"][epoch] for rank in ranks), strict=True)
        assert sorted(one + other for one, other in parts) == planned
    for mode in shards:
        assert torch.equal(ranks[0][mode]["tower"], ranks[1][mode]["tower"])
        for rank in ranks:
            assert rank[mode]["losses"][-1] < 0.95 * rank[mode]["losses"][0]
