"""Two processes: each recorded half of the samples, both train by one plan.

Run as `torchrun --nproc-per-node 2 examples/many_processes.py`.
"""

import gc

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

import batchcut as bc


def train(rank: int, world_size: int) -> None:
    """Three epochs of one of the processes."""
    torch.manual_seed(0)  # the same data and the same model everywhere
    x = torch.randn(300, 8)
    dataset = TensorDataset(x, x + 0.1 * torch.randn(300, 8))
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)

    # The loss below gathers negatives, so each process takes its part of every batch.
    sharding = bc.Sharding(rank=rank, world_size=world_size, mode="split")
    loader = bc.PlannedLoader(dataset, batch_size=32, drop_last=False, sharding=sharding)
    for epoch in range(3):
        seen = torch.zeros(len(dataset))
        for a, b in loader:  # before a plan the banks are joined; the first process plans for all
            u, v = model(torch.cat([a, b])).chunk(2)
            loss = bc.losses.gathered_contrastive_loss(u, v, background=loader.background)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loader.record(u, v)
            seen[loader.index] += 1
        dist.all_reduce(seen)
        if rank == 0:
            once = bool((seen == 1).all())
            print(f"epoch {epoch}: {len(loader)} steps, every sample once: {once}")


dist.init_process_group("gloo")
train(dist.get_rank(), dist.get_world_size())
gc.collect()  # the model is gone, and all are done, before the group is
dist.barrier()
dist.destroy_process_group()
