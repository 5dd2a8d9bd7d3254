"""The published sets: where their files are, what they sum up to, and how they are read in their official layout."""

import gzip
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from batchcut._files import existing_file, read_lines, read_text, reading

from ._fetch import Archive, Source, Transfer, obtain_file, obtain_folder
from ._images import find_images, read_images
from ._records import Bytes, Images, Ints, Split, split_at_random
from ._unpickle import load_pickle

_BRIGHTEST_DIGIT = 16
_CIFAR_SHAPE = (3, 32, 32)
_FASHION_CLASSES = 10
_FASHION_SIDE = 28
_TINY_SIDE = 64
_IDX_BYTES = 8  # the code for uint8
_LARGEST_IDX = 1 << 31


def _cifar(classes: int, folder: str, size: int, digest: str) -> Archive:
    name = f"cifar-{classes}-python.tar.gz"
    places = ("https://www.cs.toronto.edu/~kriz", "https://cave.cs.toronto.edu/kriz")  # the page has moved
    addresses = tuple(f"{place}/{name}" for place in places)
    source = Source(name=name, addresses=addresses, size=size, checksum=f"sha256:{digest}")
    return Archive(source=source, folder=folder, unpacked=200_000_000)


def _fashion(name: str, size: int, digest: str) -> Source:
    bucket, region = "fashion-mnist", "eu-central-1.amazonaws.com"
    places = (f"https://{bucket}.s3.{region}", f"http://{bucket}.s3-website.{region}")
    addresses = tuple(f"{place}/{name}" for place in places)
    return Source(name=name, addresses=addresses, size=size, checksum=f"sha256:{digest}")


CIFAR10 = _cifar(
    10, "cifar-10-batches-py", 170_498_071, "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
)
CIFAR100 = _cifar(
    100, "cifar-100-python", 169_001_437, "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"
)
TINY_IMAGENET = Archive(
    source=Source(
        name="tiny-imagenet-200.zip",
        addresses=tuple(f"{scheme}://cs231n.stanford.edu/tiny-imagenet-200.zip" for scheme in ("https", "http")),
        size=248_100_043,
        checksum="sha256:6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
    ),
    folder="tiny-imagenet-200",
    unpacked=600_000_000,
)
FASHION_MNIST = tuple(
    _fashion(f"{part}-ubyte.gz", size, digest)
    for part, size, digest in (
        ("train-images-idx3", 26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        ("train-labels-idx1", 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        ("t10k-images-idx3", 4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        ("t10k-labels-idx1", 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    )
)


def load_digits(*, seed: int) -> Split:
    """scikit-learn's 1,797 hand-written digits of 8 × 8, split by the seed; their values 0 to 16 become 0 to 255."""
    from sklearn.datasets import load_digits as embedded

    values, labels = embedded(return_X_y=True)
    pixels = np.rint(values * (255 / _BRIGHTEST_DIGIT)).astype(np.uint8).reshape(-1, 1, 8, 8)
    return split_at_random(Images("digits", pixels, labels.astype(np.int64)), seed=seed)


def load_published(name: str, root: Path, *, download: bool, progress: Transfer | None) -> Split:
    """The set of that name, one of `PUBLISHED`, in a folder of `root`."""
    if name == "fashion-mnist":
        folder = root / name
        files = [obtain_file(source, folder, download=download, progress=progress) for source in FASHION_MNIST]
        return Split(_read_fashion(*files[:2]), _read_fashion(*files[2:]))
    archive, read = _ARCHIVES[name]
    return read(obtain_folder(archive, root, download=download, progress=progress))


def _read_fashion(image_file: Path, label_file: Path) -> Images:
    """Fashion-MNIST: 28 × 28, grey, ten classes, in IDX files."""
    pixels, labels = read_idx(image_file, 3), read_idx(label_file, 1)
    if pixels.shape[1:] != (_FASHION_SIDE, _FASHION_SIDE):
        raise ValueError(f"{image_file} must hold images of {_FASHION_SIDE} × {_FASHION_SIDE}; got {pixels.shape[1:]}")
    if len(pixels) != len(labels):
        raise ValueError(f"{label_file} must hold one label for each of the {len(pixels)} images; got {len(labels)}")
    if len(labels) and labels.max() >= _FASHION_CLASSES:
        raise ValueError(f"{label_file} must hold labels below {_FASHION_CLASSES}; got {labels.max()}")
    return Images("fashion-mnist", pixels[:, None], labels.astype(np.int64))


def read_idx(path: Path, dimensions: int) -> Bytes:
    """The array of bytes in an IDX file with so many dimensions; a name that ends in .gz is unpacked."""
    unpacked = gzip.open if path.suffix == ".gz" else open
    with reading(path, "be a whole IDX file of bytes"), unpacked(path, "rb") as file:
        return _parsed_idx(file, dimensions)


def _parsed_idx(file: "IO[bytes] | gzip.GzipFile", dimensions: int) -> Bytes:
    zeros, kind, found = struct.unpack(">HBB", file.read(4))
    if (zeros, kind, found) != (0, _IDX_BYTES, dimensions):
        raise ValueError(f"its first bytes are {zeros}, {kind}, {found}, not 0, {_IDX_BYTES}, {dimensions}")
    shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
    size = math.prod(shape)
    if size > _LARGEST_IDX:
        raise ValueError(f"its shape is {shape}")
    data = file.read(size + 1)
    if len(data) != size:
        raise ValueError(f"it holds {'more' if len(data) > size else 'less'} than the {size} bytes of shape {shape}")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _read_cifar10(folder: Path) -> Split:
    """`data_batch_1` to `data_batch_5` and `test_batch`: pickled batches of 32 × 32 images, with 10 labels."""
    batches = [folder / f"data_batch_{number}" for number in range(1, 6)]
    train, test = (_cifar_images("cifar10", files, "labels", 10) for files in (batches, [folder / "test_batch"]))
    return Split(train, test)


def _read_cifar100(folder: Path) -> Split:
    """`train` and `test`: pickled batches of 32 × 32 images, with the 100 fine labels."""
    train, test = (_cifar_images("cifar100", [folder / part], "fine_labels", 100) for part in ("train", "test"))
    return Split(train, test)


def _cifar_images(name: str, files: list[Path], label_key: str, classes: int) -> Images:
    pixels, labels = zip(*(_read_cifar(existing_file(file), label_key, classes) for file in files), strict=True)
    return Images(name, np.concatenate(pixels), np.concatenate(labels))


def _read_cifar(path: Path, label_key: str, classes: int) -> tuple[Bytes, Ints]:
    content = load_pickle(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a dictionary; got {type(content).__name__}")
    entries = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in content.items()}
    missing = [key for key in ("data", label_key) if key not in entries]
    if missing:
        raise ValueError(f"{path} must hold 'data' and {label_key!r}; got {', '.join(map(repr, entries))}")
    data, labels = entries["data"], entries[label_key]
    if not (isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.shape[1:] == (np.prod(_CIFAR_SHAPE),)):
        raise ValueError(f"{path} must hold 'data' as (n, 3072) uint8; got {_described(data)}")
    if not (isinstance(labels, list) and len(labels) == len(data) and all(isinstance(x, int) for x in labels)):
        raise ValueError(f"{path} must hold {label_key!r} as one integer for each image; got {_described(labels)}")
    numbers = np.array(labels, np.int64)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= classes):
        raise ValueError(f"{path} must hold {label_key!r} from 0 to {classes - 1}; got {numbers.min()}…{numbers.max()}")
    return data.reshape(-1, *_CIFAR_SHAPE), numbers


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    return f"{len(value)} entries" if isinstance(value, list) else type(value).__name__


def _read_tiny_imagenet(folder: Path) -> Split:
    """200 classes of 64 × 64 images: `train` to learn from and `val`, whose labels are published, for the test.

    Classes are numbered in the order of their WordNet ids.
    """
    words = read_text(existing_file(folder / "wnids.txt"), "be a text of WordNet ids").split()
    numbers = {name: number for number, name in enumerate(sorted(words))}
    train = {path: path.parts[-3] for path in find_images(folder / "train")}
    absent = sorted(set(numbers) - set(train.values()))
    if train and absent:
        raise ValueError(f"{folder / 'train'} must hold images of each class in wnids.txt; got none of {absent[0]}")
    return Split(
        _tiny_images(train, numbers, folder / "train"),
        _tiny_images(_tiny_annotations(folder / "val"), numbers, folder / "val"),
    )


def _tiny_annotations(folder: Path) -> dict[Path, str]:
    file = existing_file(folder / "val_annotations.txt")
    rows = [line.split("\t") for line in read_lines(file, "be a text with a name and a class in each line") if line]
    if any(len(row) < 2 for row in rows):
        raise ValueError(f"{file} must hold a name and a class in each line; got a line without them")
    return {existing_file(folder / "images" / row[0]): row[1] for row in rows}


def _tiny_images(classes: dict[Path, str], numbers: dict[str, int], folder: Path) -> Images:
    if not classes:
        raise ValueError(f"{folder} must hold images; got none")
    unknown = sorted(set(classes.values()) - set(numbers))
    if unknown:
        raise ValueError(f"{folder} must hold the classes in wnids.txt; got {unknown[0]}")
    pixels = read_images(list(classes), channels=3)
    if pixels.shape[2:] != (_TINY_SIDE, _TINY_SIDE):
        raise ValueError(f"{folder} must hold images of {_TINY_SIDE} × {_TINY_SIDE}; got {pixels.shape[2:]}")
    return Images("tiny-imagenet", pixels, np.array([numbers[name] for name in classes.values()], np.int64))


_ARCHIVES: dict[str, tuple[Archive, Callable[[Path], Split]]] = {
    "cifar10": (CIFAR10, _read_cifar10),
    "cifar100": (CIFAR100, _read_cifar100),
    "tiny-imagenet": (TINY_IMAGENET, _read_tiny_imagenet),
}
PUBLISHED = ("fashion-mnist", *_ARCHIVES)
