"""Tiny ImageNet in its official layout: 200 classes of 64 × 64 images in files."""

from pathlib import Path

import numpy as np

from ._obtain import existing
from ._pictures import find_pictures, read_pictures
from ._records import Images, Split

_SIDE = 64


def load_tiny_imagenet(folder: Path) -> Split:
    """The images in `folder`: `train` to learn from and `val`, whose labels are published, for the test.

    Classes are numbered in the order of their WordNet ids.
    """
    words = existing(folder / "wnids.txt").read_text(encoding="utf-8").split()
    numbers = {name: number for number, name in enumerate(sorted(words))}
    train = {path: path.parts[-3] for path in find_pictures(folder / "train")}
    return Split(
        _images(train, numbers, folder / "train"), _images(_annotated(folder / "val"), numbers, folder / "val")
    )


def _annotated(folder: Path) -> dict[Path, str]:
    file = existing(folder / "val_annotations.txt")
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if line]
    if any(len(row) < 2 for row in rows):
        raise ValueError(f"{file} must hold a name and a class in each line; got a line without them")
    return {existing(folder / "images" / row[0]): row[1] for row in rows}


def _images(classes: dict[Path, str], numbers: dict[str, int], folder: Path) -> Images:
    if not classes:
        raise ValueError(f"{folder} must hold images; got none")
    unknown = sorted(set(classes.values()) - set(numbers))
    if unknown:
        raise ValueError(f"{folder} must hold the classes in wnids.txt; got {unknown[0]}")
    pixels = read_pictures(list(classes), channels=3)
    if pixels.shape[2:] != (_SIDE, _SIDE):
        raise ValueError(f"{folder} must hold images of {_SIDE} × {_SIDE}; got {pixels.shape[2:]}")
    return Images("tiny-imagenet", pixels, np.array([numbers[name] for name in classes.values()], np.int64))
