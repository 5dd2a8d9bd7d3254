"""A loop as in open_clip: two towers, a learned temperature, gathered negatives, accumulation.

Run it by `python examples/clip_loop.py` or by `torchrun --nproc-per-node=2 examples/clip_loop.py`:
the losses are the same, but for rounding, which can tip a plan to other batches that are as hard.
"""

import gc
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

import batchcut as bc

ACCUMULATE = 2
IMAGES, CAPTIONS = 500, 2  # so many of each image


class TwoTowers(nn.Module):
    """An image tower, a text tower and a logit scale."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(64, 16), nn.Linear(32, 16)
        self.log_scale = nn.Parameter(torch.tensor(1 / 0.07).log())

    def forward(self, images: Tensor, texts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The embeddings of both sides, and the scale."""
        return self.image(images), self.text(texts), self.log_scale.exp()


def data() -> tuple[TensorDataset, Tensor]:
    """Images with several captions each, and the number of the image of each pair."""
    image = torch.arange(IMAGES).repeat_interleave(CAPTIONS)
    hidden = torch.randn(IMAGES, 16)
    pictures = hidden @ torch.randn(16, 64) + torch.randn(IMAGES, 64)
    captions = hidden[image] @ torch.randn(16, 32) + torch.randn(len(image), 32)
    return TensorDataset(pictures[image], captions), image


def main() -> None:
    """Three epochs."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    torch.manual_seed(0)
    (dataset, image), towers = data(), TwoTowers()
    model = DistributedDataParallel(towers) if world > 1 else towers
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    loader = bc.PlannedLoader(
        dataset,
        batch_size=64,  # of all processes together
        temperature=0.07,  # at which the model starts
        groups=image,  # captions of one image are no negatives of each other
        sharding=bc.Sharding(rank=rank, world_size=world, mode="split"),
        multiple_of=ACCUMULATE,
    )
    for epoch in range(3):
        losses = []
        for step, (images, texts) in enumerate(loader, 1):
            last = step % ACCUMULATE == 0
            with (
                nullcontext()
                if last or not isinstance(model, DistributedDataParallel)
                else model.no_sync()
            ):
                u, v, scale = model(images, texts)
                loss = bc.losses.gathered_contrastive_loss(
                    u, v, temperature=1 / scale, background=loader.background
                )
                (loss / ACCUMULATE).backward()
            loader.record(u, v)
            losses.append(loss.detach())
            if last:
                optimizer.step()
                optimizer.zero_grad()
                with torch.no_grad():
                    towers.log_scale.clamp_(max=torch.tensor(100.0).log())
        if rank == 0:
            print(f"epoch {epoch}: {len(loader)} batches, loss {torch.stack(losses).mean():.4f}")


if __name__ == "__main__":
    main()
    if dist.is_initialized():
        gc.collect()  # the model is gone, and all are done, before the group is
        dist.barrier()
        dist.destroy_process_group()
