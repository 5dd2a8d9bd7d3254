"""accelerate: the loader shares the batches itself. Also under `accelerate launch`."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch import nn
from torch.utils.data import TensorDataset

import batchcut as bc
from batchcut.integrations import prepare_loader

torch.manual_seed(0)
x = torch.randn(1000, 32)
dataset = TensorDataset(x, x + 0.5 * torch.randn(1000, 32))

accelerator = Accelerator(cpu=True)
loader = prepare_loader(accelerator, bc.PlannedLoader(dataset, batch_size=32, temperature=0.1))
encoder = nn.Linear(32, 16)
encoder, optimizer = accelerator.prepare(encoder, torch.optim.AdamW(encoder.parameters(), lr=1e-2))


def train(*, stop: int | None = None) -> None:
    """The epoch under way, or the next one, from where it is to the batch `stop`."""
    epoch = loader.epoch
    for step, (a, b) in enumerate(loader, 1):
        u, v = encoder(a), encoder(b)
        loss = bc.contrastive_loss(
            u, v, temperature=loader.temperature, background=loader.background
        )
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        loader.record(u, v)
        if step == stop:
            return
    accelerator.print("epoch", epoch, "ends with loss", round(loss.item(), 3))


with tempfile.TemporaryDirectory() as own:
    (folder,) = broadcast_object_list([own])  # that of the first process, for all
    train()
    train(stop=5)
    accelerator.save_state(folder)  # the plan, the place in the epoch and the bank are in it
    accelerator.wait_for_everyone()
    accelerator.load_state(folder)
    train()  # the same remaining batches, although the bank has changed since they were planned
    train()
    accelerator.wait_for_everyone()
accelerator.end_training()
