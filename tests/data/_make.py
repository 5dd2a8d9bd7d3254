"""Small data sets in the official layouts, made on the spot."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

Bytes = npt.NDArray[np.uint8]


def random_pixels(count: int, channels: int, side: int, *, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, (count, channels, side, side), np.uint8)


def write_cifar(path: Path, pixels: Bytes, labels: list[int], key: str, *, protocol: int = 2) -> None:
    """A batch as the official pickles have it: keys in bytes, pixels in rows of 3,072."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {b"data": pixels.reshape(len(pixels), -1), key.encode(): labels, b"batch_label": b"made"}
    path.write_bytes(pickle.dumps(content, protocol))


def write_cifar100(folder: Path, *, train: int = 7, test: int = 5) -> tuple[Bytes, Bytes]:
    parts = random_pixels(train, 3, 32), random_pixels(test, 3, 32, seed=1)
    for name, pixels in zip(("train", "test"), parts, strict=True):
        write_cifar(folder / name, pixels, [(3 * i) % 100 for i in range(len(pixels))], "fine_labels")
    return parts


def write_idx(path: Path, values: Bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_picture(path: Path, pixels: Bytes) -> None:
    """One image (C, H, W); the name decides the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(path)
