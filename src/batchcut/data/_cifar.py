"""CIFAR-10 and CIFAR-100 in their official layout: pickled batches of 32 × 32 images."""

from pathlib import Path

import numpy as np

from ._obtain import existing
from ._records import Bytes, Images, Ints, Split
from ._unpickle import load_pickle

_SHAPE = (3, 32, 32)


def load_cifar100(folder: Path) -> Split:
    """The images in `folder`, which holds the files `train` and `test`, with the 100 fine labels."""
    train, test = (_images("cifar100", [folder / part], "fine_labels", 100) for part in ("train", "test"))
    return Split(train, test)


def load_cifar10(folder: Path) -> Split:
    """The images in `folder`, which holds the files `data_batch_1` to `data_batch_5` and `test_batch`."""
    batches = [folder / f"data_batch_{number}" for number in range(1, 6)]
    train, test = (_images("cifar10", files, "labels", 10) for files in (batches, [folder / "test_batch"]))
    return Split(train, test)


def _images(name: str, files: list[Path], label_key: str, classes: int) -> Images:
    parts = [_read(existing(file), label_key, classes) for file in files]
    pixels = np.concatenate([pixels for pixels, _ in parts])
    return Images(name, pixels, np.concatenate([labels for _, labels in parts]))


def _read(path: Path, label_key: str, classes: int) -> tuple[Bytes, Ints]:
    content = load_pickle(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a dictionary; got {type(content).__name__}")
    entries = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in content.items()}
    missing = [key for key in ("data", label_key) if key not in entries]
    if missing:
        raise ValueError(f"{path} must hold 'data' and {label_key!r}; got {', '.join(map(repr, entries))}")
    data, labels = entries["data"], entries[label_key]
    if not (isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.shape[1:] == (np.prod(_SHAPE),)):
        raise ValueError(f"{path} must hold 'data' as (n, 3072) uint8; got {_described(data)}")
    if not (isinstance(labels, list) and len(labels) == len(data) and all(isinstance(x, int) for x in labels)):
        raise ValueError(f"{path} must hold {label_key!r} as one integer for each image; got {_described(labels)}")
    numbers = np.array(labels, np.int64)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= classes):
        raise ValueError(f"{path} must hold {label_key!r} from 0 to {classes - 1}; got {numbers.min()}…{numbers.max()}")
    return data.reshape(-1, *_SHAPE), numbers


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    return f"{len(value)} entries" if isinstance(value, list) else type(value).__name__
