"""accelerate: the sampler shares the batches, and accelerate leaves them alone. Also under `accelerate launch`."""

import tempfile

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import broadcast_object_list
from torch import nn
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, TensorDataset

import batchcut as bc
from batchcut.integrations import prepare_loader, sharding_of

torch.manual_seed(0)
x = torch.randn(1000, 32)
dataset = TensorDataset(x, x + 0.5 * torch.randn(1000, 32))

accelerator = Accelerator(cpu=True)
bank = bc.EmbeddingBank(len(dataset), 16, device=accelerator.device)
sampler = bc.PlannedBatchSampler(bank, batch_size=32, sharding=sharding_of(accelerator))
loader = prepare_loader(accelerator, DataLoader(bc.Indexed(dataset), batch_sampler=sampler))
encoder = nn.Linear(32, 16)
encoder, optimizer = accelerator.prepare(encoder, torch.optim.AdamW(encoder.parameters(), lr=1e-2))


def train(epoch: int, *, done: int = 0, stop: int | None = None) -> None:
    """One epoch, from the batch `done` to the batch `stop`."""
    loader.set_epoch(epoch)  # type: ignore[attr-defined]
    for step, (index, views) in enumerate(skip_first_batches(loader, done) if done else loader, done + 1):
        u, v = (normalize(encoder(view), dim=1) for view in views)
        loss = bc.contrastive_loss(u, v, temperature=0.1)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        bank.record(index, u, v)
        if step == stop:
            return
    accelerator.print("epoch", epoch, "ends with loss", round(loss.item(), 3))


with tempfile.TemporaryDirectory() as own:
    (folder,) = broadcast_object_list([own])  # that of the first process, for all
    train(0)
    train(1, stop=5)
    accelerator.save_state(folder)  # the plan and the bank are in it
    accelerator.load_state(folder)
    train(1, done=5)  # the same remaining batches, although the bank has changed since they were planned
    train(2)
    accelerator.wait_for_everyone()
accelerator.end_training()
