"""`folder:PATH`: images in files, with classes where sub-folders name them."""

import errno
from pathlib import Path

import numpy as np

from ._pictures import find_pictures, read_pictures
from ._records import Images, Ints, Split
from ._split import split_images

_TEST_NAMES = ("test", "val", "valid", "validation")


def load_folder(address: str, *, seed: int, image_size: int | None = None) -> Split:
    """The images at `address`, which holds `train` and `test` (or `val`), or is split at random by the seed.

    Where every image lies in a sub-folder, the sub-folders are the classes, numbered in the order of their names.
    For their size see `read_pictures`.
    """
    folder = Path(address).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(folder))
    name = f"folder:{address}"
    tests = [folder / part for part in _TEST_NAMES if (folder / part).is_dir()]
    if not (folder / "train").is_dir() or not tests:
        files = _files(folder)
        return split_images(Images(name, read_pictures(files, size=image_size), _labels(files, [folder])), seed=seed)
    parts = [folder / "train", tests[0]]
    files, held_out = (_files(part) for part in parts)
    pixels, labels = read_pictures(files + held_out, size=image_size), _labels(files + held_out, parts)
    rows = (slice(None, len(files)), slice(len(files), None))
    train, test = (Images(name, pixels[part], None if labels is None else labels[part]) for part in rows)
    return Split(train, test)


def _files(folder: Path) -> list[Path]:
    files = find_pictures(folder)
    if len(files) < 2:
        found = "none" if not files else f"one, {files[0].name}"
        raise ValueError(f"{folder} must hold at least 2 images; got {found}")
    return files


def _labels(files: list[Path], roots: list[Path]) -> Ints | None:
    """(N,) the class of each file, or None where some image lies in no class."""
    inside = [next(path.relative_to(root) for root in roots if path.is_relative_to(root)) for path in files]
    if any(len(path.parts) < 2 for path in inside):
        return None
    return np.unique([path.parts[0] for path in inside], return_inverse=True)[1].astype(np.int64)
