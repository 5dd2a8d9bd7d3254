"""Images in files: `folder:PATH`, and what other sets need to find and decode theirs."""

import errno
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from batchcut._errors import needs
from batchcut._files import reading

from ._fetch import expanded
from ._records import Bytes, Images, Ints, Split, split_at_random

if TYPE_CHECKING:
    from PIL.Image import Image

_SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
_EIGHT_BIT = frozenset({"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"})
_GRAY = frozenset({"1", "L", "LA", "La"})
_LARGEST_SIDE = 224
_ORIENTATION = 0x0112  # EXIF; from 5 on, width and height change places
_TEST_NAMES = ("test", "val", "valid", "validation")


def load_folder(address: str, *, seed: int, image_size: int | None = None) -> Split:
    """The images at `address`, which holds `train` and `test` (or `val`), or is split at random by the seed.

    Names of these parts may be capitals; where all images are in `train`, that is split.

    Where every image lies in a sub-folder, the sub-folders are the classes, numbered in the order of their names.
    For their size see `read_images`.
    """
    parts = _parts(existing_folder(address))
    files = [_at_least_two(part) for part in parts]
    together = [path for part in files for path in part]  # so that all have one size, and one list of classes
    pixels, note = read_images_with_note(together, size=image_size)
    images = Images(f"folder:{address}", pixels, _classes(together, parts), note)
    if len(parts) == 1:
        return split_at_random(images, seed=seed)
    return Split(images.take(slice(None, len(files[0]))), images.take(slice(len(files[0]), None)))


def _parts(folder: Path) -> list[Path]:
    """The folders of the training and the test part; or the one that is to be split, `train` if all images are there.

    Beside other folders with images, `train` alone is a class.
    """
    named = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()}
    train, test = named.get("train"), next((named[name] for name in _TEST_NAMES if name in named), None)
    if train is None:
        return [folder]
    if test is not None:
        return [train, test]
    return [train] if all(path.is_relative_to(train) for path in find_images(folder)) else [folder]


def existing_folder(address: str) -> Path:
    """The folder at an address, if there is one."""
    folder = expanded(Path(address))
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(folder))
    return folder


def _at_least_two(folder: Path) -> list[Path]:
    files = find_images(folder)
    if len(files) < 2:
        found = "none" if not files else f"one, {files[0].name}"
        raise ValueError(f"{folder} must hold at least 2 images; got {found}")
    return files


def _classes(files: list[Path], roots: list[Path]) -> Ints | None:
    """(N,) the class of each file, or None where some image lies in no class."""
    inside = [next(path.relative_to(root) for root in roots if path.is_relative_to(root)) for path in files]
    if any(len(path.parts) < 2 for path in inside):
        return None
    return np.unique([path.parts[0] for path in inside], return_inverse=True)[1].astype(np.int64)


def find_images(folder: Path) -> list[Path]:
    """The image files in a folder and those below it, in the order of their names; hidden ones are left out."""
    found = []
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = (name for name in files if Path(name).suffix.lower() in _SUFFIXES and not name.startswith("."))
        found += [Path(place) / name for name in names]
    return sorted(found)


def read_images(paths: Sequence[Path], *, size: int | None = None, channels: int | None = None) -> Bytes:
    """(N, C, H, W) pixels of the files, in their order.

    Where all images have one size of at most 224 × 224 and `size` is None, they are taken as they are. Otherwise each
    is scaled and its middle cut out, to a square of `size`, or of the shortest side among them but at most 224.
    C is 1 where all images are grey, else 3, unless `channels` says so. Transparency is dropped.
    """
    return read_images_with_note(paths, size=size, channels=channels)[0]


def read_images_with_note(
    paths: Sequence[Path], *, size: int | None = None, channels: int | None = None
) -> tuple[Bytes, str]:
    """What `read_images` gives, and in words what was done to make all images of one size; empty where nothing was."""
    with ThreadPoolExecutor(os.cpu_count()) as crew:
        heads = list(crew.map(_head, paths))
        sizes = {head[:2] for head in heads}
        square = size
        if square is None and (len(sizes) > 1 or max(next(iter(sizes))) > _LARGEST_SIDE):
            square = min(_LARGEST_SIDE, *(min(pair) for pair in sizes))
        gray = all(head[2] for head in heads) if channels is None else channels == 1
        width, height = (square, square) if square else next(iter(sizes))
        pixels = np.empty((len(paths), 1 if gray else 3, height, width), np.uint8)

        def read(row: int) -> None:
            pixels[row] = _pixels(paths[row], square, "L" if gray else "RGB")

        for _ in crew.map(read, range(len(paths)), chunksize=64):
            pass
    return pixels, _note(sizes, square)


def _note(sizes: set[tuple[int, int]], square: int | None) -> str:
    if square is None or sizes == {(square, square)}:
        return ""
    small, large = (f"{width} × {height}" for width, height in (f(sizes, key=math.prod) for f in (min, max)))
    found = f"images of {small}" if len(sizes) == 1 else f"images of {len(sizes):,} sizes, from {small} to {large},"
    return f"{found} are scaled and their middle cut out, to {square} × {square}"


def _head(path: Path) -> tuple[int, int, bool]:
    """Width and height as the image is shown, and whether it is grey."""
    with _open(path) as image:
        if image.mode not in _EIGHT_BIT:
            raise ValueError(f"{path} must have 8 bits per channel; got the mode {image.mode}")
        width, height = image.size
        try:
            turned = image.getexif().get(_ORIENTATION, 1) >= 5
        except Exception:  # damaged notes about a picture do no harm to it
            turned = False
        return (height, width, image.mode in _GRAY) if turned else (width, height, image.mode in _GRAY)


def _pixels(path: Path, square: int | None, mode: str) -> Bytes:
    from PIL import Image, ImageOps

    with _open(path) as image, reading(path, "be a whole image"):
        shown = ImageOps.exif_transpose(image).convert(mode)
        if square and shown.size != (square, square):
            shown = ImageOps.fit(shown, (square, square), Image.Resampling.BICUBIC)
        array = np.asarray(shown)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def _open(path: Path) -> "Image":
    with needs("pillow", "images in files"):
        from PIL import Image
    with reading(path, "be an image", found="a file that is not: "):
        return Image.open(path)
