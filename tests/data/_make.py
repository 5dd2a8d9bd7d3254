"""Small data sets in the official layouts, made on the spot."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet
import safetensors.numpy
from PIL import Image

from batchcut.data import Pairs, load

Bytes = npt.NDArray[np.uint8]
Arrays = dict[str, npt.NDArray[np.float32]]
NAMES = ("train_u", "train_v", "test_u", "test_v")


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


def arrays(kind: type = np.float32) -> Arrays:
    rng = np.random.default_rng(0)
    shapes = ((30, 5), (30, 3), (8, 5), (8, 3))
    return {name: rng.standard_normal(shape).astype(kind) for name, shape in zip(NAMES, shapes, strict=True)}


def write_npz(folder: Path, content: Arrays) -> str:
    np.savez(folder / "pairs.npz", **content)  # type: ignore[arg-type]
    return str(folder / "pairs.npz")


def write_compressed(folder: Path, content: Arrays) -> str:
    np.savez_compressed(folder / "pairs.npz", **content)  # type: ignore[arg-type]
    return str(folder / "pairs.npz")


def write_npy(folder: Path, content: Arrays) -> str:
    for name, values in content.items():
        np.save(folder / f"{name}.npy", values)
    if set(content) == {"u", "v"}:
        return f"{folder / 'u.npy'}, {folder / 'v.npy'}"
    return str(folder)


def write_folder(folder: Path, content: Arrays) -> str:
    write_npy(folder, content)
    return str(folder)


def write_safetensors(folder: Path, content: Arrays) -> str:
    safetensors.numpy.save_file(content, folder / "pairs.safetensors", metadata={"made": "here"})
    return str(folder / "pairs.safetensors")


def write_parquet(folder: Path, content: Arrays) -> str:
    if "u" in content:
        columns = {side: list(content[side]) for side in ("u", "v")}
        table = pyarrow.table(columns)
    else:
        sides = {side: [*content[f"train_{side}"], *content[f"test_{side}"]] for side in ("u", "v")}
        split = ["train"] * len(content["train_u"]) + ["test"] * len(content["test_u"])
        table = pyarrow.table(sides | {"split": split})
    pyarrow.parquet.write_table(table, folder / "pairs.parquet", row_group_size=7)
    return str(folder / "pairs.parquet")


def parts(address: str, seed: int = 0) -> tuple[Pairs, Pairs]:
    split = load(f"pairs:{address}", seed=seed)
    assert isinstance(split.train, Pairs)
    assert isinstance(split.test, Pairs)
    return split.train, split.test
