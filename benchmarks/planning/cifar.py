"""S4: embeddings of real CIFAR-100 images from a small encoder, trained briefly on two random views of each."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from batchcut.data import Images, load

_BATCH = 256
_TEMPERATURE = 0.1


def read_images(folder: Path) -> npt.NDArray[np.uint8]:
    """(N, 3, 32, 32) training images of CIFAR-100, from the folder cifar-100-python."""
    images = load("cifar100", root=folder.parent).train
    assert isinstance(images, Images)  # and not pairs of features
    return images.pixels


def embed(folder: Path, *, epochs: int, seed: int = 0) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Trains the encoder for `epochs` and returns the unit embeddings of two views of each image."""
    torch.manual_seed(seed)
    images = torch.from_numpy(read_images(folder).astype(np.float32) / np.float32(255))
    encoder = _encoder()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(_BATCH):
            u, v = (_unit(encoder(_view(images[rows]))) for _ in range(2))
            scores, own = u @ v.T / _TEMPERATURE, torch.arange(len(rows))
            loss = nn.functional.cross_entropy(scores, own) + nn.functional.cross_entropy(scores.T, own)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    encoder.eval()
    with torch.no_grad():
        sides = [torch.cat([_unit(encoder(_view(part))) for part in images.split(_BATCH)]).numpy() for _ in range(2)]
    return sides[0], sides[1]


def _encoder() -> nn.Sequential:
    layers: list[nn.Module] = []
    for width, out in ((3, 32), (32, 64), (64, 128), (128, 256)):
        layers += [nn.Conv2d(width, out, 3, stride=2, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 128))


def _view(images: Tensor) -> Tensor:
    """A random crop of each image, half of them flipped, with random brightness and contrast."""
    count = len(images)
    flip = torch.where(torch.rand(count) < 0.5, -1.0, 1.0)
    scale = torch.empty(count).uniform_(0.5, 1.0)
    shift = (1 - scale)[:, None] * torch.empty(count, 2).uniform_(-1, 1)
    maps = torch.zeros(count, 2, 3)
    maps[:, 0, 0], maps[:, 1, 1], maps[:, :, 2] = scale * flip, scale, shift
    grid = nn.functional.affine_grid(maps, list(images.shape), align_corners=False)
    crops = nn.functional.grid_sample(images, grid, align_corners=False, padding_mode="reflection")
    gain, lift = (
        torch.empty(count, 1, 1, 1).uniform_(0.6, 1.4),
        torch.empty(count, 3, 1, 1).uniform_(-0.2, 0.2),
    )
    return crops * gain + lift


def _unit(rows: Tensor) -> Tensor:
    return nn.functional.normalize(rows, dim=1)
