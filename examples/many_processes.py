"""Two processes: each recorded half of the samples, both train by one plan.

Run as `torchrun --nproc-per-node 2 examples/many_processes.py`.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import normalize
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import batchcut as bc


def train(rank: int, world: int) -> None:
    """Three epochs of one of the processes."""
    torch.manual_seed(0)  # the same data and the same model everywhere
    x = torch.randn(300, 8)
    dataset = bc.Indexed(TensorDataset(x, x + 0.1 * torch.randn(300, 8)))
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)

    bank = bc.EmbeddingBank(len(dataset), dim=8)
    sharding = bc.Sharding(rank=rank, world=world, mode="split")  # the loss below gathers negatives
    sampler = bc.PlannedBatchSampler(bank, batch_size=32, sharding=sharding, leftover="short")
    loader = DataLoader(dataset, batch_sampler=sampler)

    for epoch in range(3):
        sampler.set_epoch(epoch)  # before a plan the banks are joined, and the first process plans for all
        seen = torch.zeros(len(dataset))
        for index, (a, b) in loader:
            rows = normalize(model(torch.cat([a, b])), dim=1)
            u, v = rows.chunk(2)
            loss = bc.gathered_contrastive_loss(u, v, temperature=0.1)
            bank.record(index, u, v)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            seen[index] += 1
        dist.all_reduce(seen)
        if rank == 0:
            print(f"epoch {epoch}: {len(loader)} steps, every sample once: {bool((seen == 1).all())}")


dist.init_process_group("gloo")
train(dist.get_rank(), dist.get_world_size())
dist.barrier()  # all are done, and the model is gone, before the group is
dist.destroy_process_group()
