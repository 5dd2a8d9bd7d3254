"""SimCLR on images: the same encoder with shuffled and with planned batches.

`python examples/simclr_images.py` takes scikit-learn's digits and some seconds; `--folder PATH`
takes image files.
"""

import argparse
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample, normalize
from torch.utils.data import TensorDataset

import batchcut as bc
from batchcut.evaluation import retrieval


def view(images: Tensor) -> Tensor:
    """A random view of images: (b, c, h, w), bytes: another cut-out and brightness of each."""
    count = len(images)
    cut_out = torch.zeros(count, 2, 3)
    cut_out[:, 0, 0] = cut_out[:, 1, 1] = 1 - 0.05 * torch.rand(count)
    cut_out[:, :, 2] = 0.1 * torch.rand(count, 2) - 0.05
    grid = affine_grid(cut_out, list(images.shape), align_corners=False)
    brightness = 0.6 + 0.8 * torch.rand(count, 1, 1, 1)
    return brightness * grid_sample(images.float() / 255, grid, align_corners=False) - 0.5


def encoder(channels: int) -> nn.Module:
    """Three convolutions and a projection head."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((channels, 16), (16, 32), (32, 64)):
        layers += [
            nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)]
    return nn.Sequential(*layers, *head)


def embed(model: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Two views of each image as unit rows u, v: (b, 32), of one forward pass."""
    u, v = normalize(model(torch.cat([view(images), view(images)])), dim=1).chunk(2)
    return u, v


def train(images: Tensor, selector: bc.selection.Selector, *, epochs: int, seed: int) -> nn.Module:
    """An encoder after some epochs with the batches that a selector chooses."""
    torch.manual_seed(seed)
    model = encoder(images.shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = bc.PlannedLoader(
        TensorDataset(images), batch_size=16, selector=selector, seed=seed, average_views=True
    )
    for _ in range(epochs):
        for (batch,) in loader:
            u, v = embed(model, batch)
            loss = bc.nt_xent(u, v, background=loader.background)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loader.record(u, v)
    return model.eval()


@torch.no_grad()
def top1(model: nn.Module, images: Tensor, *, draws: int = 5) -> float:
    """How often a view of an image finds the other one among all; a mean over draws of views."""
    torch.manual_seed(0)
    return sum(retrieval(*embed(model, images)).top1 for _ in range(draws)) / draws


def main() -> None:
    """Trains twice and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", help="images, in train and test or in one folder (default: digits)"
    )
    parser.add_argument("--epochs", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    options = parser.parse_args()
    data = bc.data.load(f"folder:{options.folder}" if options.folder else "digits")
    parts = (cast(bc.data.Images, part) for part in (data.train, data.test))
    images, held_out = (torch.from_numpy(part.pixels) for part in parts)
    print(f"{len(images):,} images to learn from, retrieval among {len(held_out):,} others")
    for selector in (bc.Shuffle(), bc.Cut()):
        model = train(images, selector, epochs=options.epochs, seed=options.seed)
        print(f"{type(selector).__name__:8} top-1 {top1(model, held_out):.1%}")


if __name__ == "__main__":
    main()
