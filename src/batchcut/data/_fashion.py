"""Fashion-MNIST in its official layout: four IDX files, packed or not."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from ._download import Transfer
from ._obtain import obtain_file
from ._official import FASHION_MNIST
from ._records import Images, Split

_UBYTE = 8
_CLASSES = 10
_LARGEST = 1 << 31


def load_fashion_mnist(root: Path, *, download: bool, progress: Transfer | None) -> Split:
    """The images in `root`/fashion-mnist: 28 × 28, grey, ten classes."""
    folder = root / "fashion-mnist"
    files = [obtain_file(source, folder, download=download, progress=progress) for source in FASHION_MNIST]
    train, test = (_images(*files[part : part + 2]) for part in (0, 2))
    return Split(train, test)


def _images(image_file: Path, label_file: Path) -> Images:
    pixels, labels = read_idx(image_file, 3), read_idx(label_file, 1)
    if len(pixels) != len(labels):
        raise ValueError(f"{label_file} must hold one label for each of the {len(pixels)} images; got {len(labels)}")
    if len(labels) and labels.max() >= _CLASSES:
        raise ValueError(f"{label_file} must hold labels below {_CLASSES}; got {labels.max()}")
    return Images("fashion-mnist", pixels[:, None], labels.astype(np.int64))


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """The array of bytes in an IDX file with so many dimensions; a name that ends in .gz is unpacked."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return _read_idx(file, dimensions)
    except FileNotFoundError:
        raise
    except (OSError, EOFError, zlib.error, struct.error, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{path} must be a whole IDX file of bytes; got one that fails: {reason}") from error


def _read_idx(file: "IO[bytes] | gzip.GzipFile", dimensions: int) -> npt.NDArray[np.uint8]:
    zeros, kind, found = struct.unpack(">HBB", file.read(4))
    if (zeros, kind, found) != (0, _UBYTE, dimensions):
        raise ValueError(f"its first bytes are {zeros}, {kind}, {found}, not 0, {_UBYTE}, {dimensions}")
    shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
    size = math.prod(shape)
    if size > _LARGEST:
        raise ValueError(f"its shape is {shape}")
    data = file.read(size + 1)
    if len(data) != size:
        raise ValueError(f"it holds {'more' if len(data) > size else 'less'} than the {size} bytes of shape {shape}")
    return np.frombuffer(data, np.uint8).reshape(shape)
