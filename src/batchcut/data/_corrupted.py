"""The published corrupted sets: CIFAR-100-C and Tiny ImageNet-C, read a few images at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from batchcut._errors import check_integer, invalid
from batchcut._files import existing_file

from ._arrays import open_npy
from ._fetch import Archive, Source, Transfer, data_root, obtain_folder
from ._images import find_images, read_images
from ._records import Bytes

_LEVELS = 5
_FIFTEEN = (
    "brightness",
    "contrast",
    "defocus_blur",
    "elastic_transform",
    "fog",
    "frost",
    "gaussian_noise",
    "glass_blur",
    "impulse_noise",
    "jpeg_compression",
    "motion_blur",
    "pixelate",
    "shot_noise",
    "snow",
    "zoom_blur",
)
_NINETEEN = tuple(sorted({*_FIFTEEN, "gaussian_blur", "saturate", "spatter", "speckle_noise"}))


@dataclass(frozen=True, eq=False)
class CorruptedImages:
    """N images, each under several corruptions.

    Attributes:
        name: What the set is called.
        corruptions: The corruptions, by name.
        count: N; image i is the same under every corruption.
        read: Called with a corruption and a range of images, returns their pixels (n, C, H, W) uint8.
    """

    name: str
    corruptions: tuple[str, ...]
    count: int
    read: Callable[[str, range], Bytes]

    def __len__(self) -> int:
        return self.count


def load_corrupted(
    name: str,
    *,
    root: Path | None = None,
    severity: int = 1,
    download: bool = False,
    progress: Transfer | None = None,
) -> CorruptedImages:
    """The corrupted set of that name at one severity, in its official layout in a folder of `root`.

    - `cifar100-c`: 19 files `CIFAR-100-C/brightness.npy` …, each (5n, 32, 32, 3) uint8, severities 1 to 5 in order.
    - `tiny-imagenet-c`: 15 folders `Tiny-ImageNet-C/brightness/1/n01443537/*.JPEG` ….

    Args:
        name: One of the two names.
        root: The folder where data sets are kept; None: `$BATCHCUT_DATA`, or else `batchcut` in the user's cache.
        severity: 1 to 5.
        download: Fetch what is missing from the official address.
        progress: Called while a file is fetched with its name, the bytes that are there and all there will be.
    """
    if name not in _SETS:
        raise invalid("name", f"be one of {', '.join(_SETS)}", repr(name))
    level = check_integer("severity", severity, at_least=1, at_most=_LEVELS)
    archive, open_set = _SETS[name]
    return open_set(obtain_folder(archive, data_root(root), download=download, progress=progress), level)


def _open_cifar(folder: Path, level: int) -> CorruptedImages:
    files = {name: open_npy(existing_file(folder / f"{name}.npy")) for name in _NINETEEN}
    lengths = {}
    for name, values in files.items():
        if values.dtype != np.uint8 or values.shape[1:] != (32, 32, 3) or len(values) % _LEVELS or not len(values):
            found = f"{values.shape} {values.dtype}"
            raise ValueError(f"{folder / name}.npy must hold (5n, 32, 32, 3) uint8, n for each severity; got {found}")
        lengths[name] = len(values) // _LEVELS
    count = min(lengths.values())
    if count != max(lengths.values()):
        least, most = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise ValueError(f"{folder} must hold files of one length; got {least} with {count}, {most} with more")

    def read(corruption: str, rows: range) -> Bytes:
        start = (level - 1) * count
        part = files[corruption][start + rows.start : start + rows.stop]
        return np.ascontiguousarray(part.transpose(0, 3, 1, 2))

    return CorruptedImages(f"cifar100-c, severity {level}", _NINETEEN, count, read)


def _open_tiny(folder: Path, level: int) -> CorruptedImages:
    files: dict[str, list[Path]] = {}
    for name in _FIFTEEN:
        place = folder / name / str(level)
        files[name] = find_images(place)
        first = [path.relative_to(folder / _FIFTEEN[0] / str(level)) for path in files[_FIFTEEN[0]]]
        if not files[name] or [path.relative_to(place) for path in files[name]] != first:
            rule = "hold images" if not first else f"hold the same images as {_FIFTEEN[0]}"
            raise ValueError(f"{place} must {rule}; got {len(files[name])} files")

    def read(corruption: str, rows: range) -> Bytes:
        return read_images(files[corruption][rows.start : rows.stop], channels=3)

    return CorruptedImages(f"tiny-imagenet-c, severity {level}", _FIFTEEN, len(files[_FIFTEEN[0]]), read)


def _zenodo(record: int, folder: str, size: int, digest: str, unpacked: int) -> Archive:
    name = f"{folder}.tar"
    address = f"https://zenodo.org/records/{record}/files/{name}"
    source = Source(name=name, addresses=(address,), size=size, checksum=f"md5:{digest}")
    return Archive(source=source, folder=folder, unpacked=unpacked)


CIFAR100_C = _zenodo(3555552, "CIFAR-100-C", 2_918_473_216, "11f0ed0f1191edbf9fa23466ae6021d3", 3_100_000_000)
TINY_IMAGENET_C = _zenodo(2536630, "Tiny-ImageNet-C", 1_794_775_040, "f9c9a9dbdc11469f0b850190f7ad8be1", 2_500_000_000)
_SETS: dict[str, tuple[Archive, Callable[[Path, int], CorruptedImages]]] = {
    "cifar100-c": (CIFAR100_C, _open_cifar),
    "tiny-imagenet-c": (TINY_IMAGENET_C, _open_tiny),
}
