"""Reads image files into one array, all of one size."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ._extras import needs
from ._records import Bytes

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
_EIGHT_BIT = frozenset({"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"})
_GREY = frozenset({"1", "L", "LA", "La"})
_LARGEST_SIDE = 224
_ORIENTATION = 0x0112  # EXIF; from 5 on, width and height change places


def find_pictures(folder: Path) -> list[Path]:
    """The image files in a folder and those below it, in the order of their names; hidden ones are left out."""
    found = []
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = (name for name in files if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."))
        found += [Path(place) / name for name in names]
    return sorted(found)


def read_pictures(paths: Sequence[Path], *, size: int | None = None, channels: int | None = None) -> Bytes:
    """(N, C, H, W) pixels of the files, in their order.

    Where all images have one size of at most 224 × 224 and `size` is None, they are taken as they are. Otherwise each
    is scaled and its middle cut out, to a square of `size`, or of the shortest side among them but at most 224.
    C is 1 where all images are grey, else 3, unless `channels` says so. Transparency is dropped.
    """
    with ThreadPoolExecutor(os.cpu_count()) as crew:
        heads = list(crew.map(_head, paths))
        sizes = {head[:2] for head in heads}
        square = size
        if square is None and (len(sizes) > 1 or max(next(iter(sizes))) > _LARGEST_SIDE):
            square = min(_LARGEST_SIDE, *(min(pair) for pair in sizes))
        grey = all(head[2] for head in heads) if channels is None else channels == 1
        width, height = (square, square) if square else next(iter(sizes))
        pixels = np.empty((len(paths), 1 if grey else 3, height, width), np.uint8)

        def read(row: int) -> None:
            pixels[row] = _pixels(paths[row], square, "L" if grey else "RGB")

        for _ in crew.map(read, range(len(paths)), chunksize=64):
            pass
    return pixels


def _head(path: Path) -> tuple[int, int, bool]:
    """Width and height as the image is shown, and whether it is grey."""
    image = _open(path)
    with image:
        if image.mode not in _EIGHT_BIT:
            raise ValueError(f"{path} must have 8 bits per channel; got the mode {image.mode}")
        width, height = image.size
        try:
            turned = image.getexif().get(_ORIENTATION, 1) >= 5
        except Exception:  # damaged notes about a picture do no harm to it
            turned = False
        return (height, width, image.mode in _GREY) if turned else (width, height, image.mode in _GREY)


def _pixels(path: Path, square: int | None, mode: str) -> Bytes:
    from PIL import Image, ImageOps

    with _open(path) as image:
        try:
            shown = ImageOps.exif_transpose(image).convert(mode)
            if square and shown.size != (square, square):
                shown = ImageOps.fit(shown, (square, square), Image.Resampling.BICUBIC)
        except Exception as error:  # decoders raise all kinds of things at damaged files
            raise ValueError(f"{path} must be a whole image; got one that fails: {error}") from error
        array = np.asarray(shown)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def _open(path: Path) -> "Image":
    with needs("pillow", "images in files"):
        from PIL import Image
    try:
        return Image.open(path)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} must be an image; got a file that is not: {error}") from error
