"""From a name to a data set."""

import errno
from pathlib import Path

from batchcut._errors import check_integer, invalid, wrong_type

from ._arrays import places_at
from ._fetch import Transfer, data_root, expanded
from ._functions import load_functions
from ._images import existing_folder, load_folder
from ._pairs import load_pairs
from ._published import PUBLISHED, load_digits, load_published
from ._records import Split

_PLACED = ("folder", "pairs")
_NAMES = ("digits", "functions", *PUBLISHED, "folder:PATH", "pairs:FILE")


def check_name(argument: str, name: object) -> None:
    """Refuses what `load` does not know as the name of a data set."""
    if not isinstance(name, str):
        raise wrong_type(argument, "be a string", name)
    kind, colon, address = name.partition(":")
    if colon and kind in _PLACED:
        if not address:
            raise invalid(argument, f"say where after {kind}:", repr(name))
    elif name not in _NAMES:
        raise invalid(argument, f"be one of {', '.join(_NAMES)}", repr(name))


def places(name: str, *, root: Path | None = None) -> list[Path]:
    """The files and folders that `load` reads."""
    kind, _, address = name.partition(":")
    if kind == "pairs":
        return places_at(address)
    if kind == "folder":
        return [expanded(Path(address))]
    return [data_root(root)] if name in PUBLISHED else []


def check_there(name: str) -> None:
    """Refuses `folder:PATH` and `pairs:FILE` that are not there, at once: what reads them may be slow to begin."""
    kind, _, address = name.partition(":")
    if kind == "folder":
        existing_folder(address)
    elif kind == "pairs":
        for place in places_at(address):
            if not place.exists():
                raise FileNotFoundError(errno.ENOENT, "no such file", str(place))


def load(
    name: str,
    *,
    root: Path | None = None,
    download: bool = False,
    seed: int = 0,
    image_size: int | None = None,
    progress: Transfer | None = None,
) -> Split:
    """The data set of that name, in a part to learn from and one for the test.

    - `digits`: scikit-learn's, always at hand; split by the seed.
    - `functions`: the Python functions on this machine, always at hand; see `load_functions`.
    - `fashion-mnist`, `cifar10`, `cifar100`, `tiny-imagenet`: in their official layout in a folder of `root`, with as
      many images as the files hold. The official validation part of Tiny ImageNet is the test.
    - `folder:PATH`: image files in `train` and `test` (or `val`), or in one folder that is split by the seed; classes
      where sub-folders name them.
    - `pairs:FILE`: two aligned arrays of features in `.npz`, `.safetensors`, `.parquet`, a folder of `.npy` files, or
      two `.npy` files with a comma between them: `train_u`, `train_v`, `test_u`, `test_v`; or `u` and `v`, or just two
      of any names, which are split by the seed. What is named by parts in `.npy` or `.safetensors` stays memory-mapped.

    Args:
        name: One of the names above.
        root: The folder where data sets are kept; None: `$BATCHCUT_DATA`, or else `batchcut` in the user's cache.
        download: Fetch what is missing from the official address.
        seed: Splits a set that comes without a test part: a fifth of it, at most 10,000 samples.
        image_size: Side of the square to which the images of `folder:` are scaled and cut; None: as they are where
            all have one size of at most 224 × 224, else the shortest side among them, at most 224.
        progress: Called while a file is fetched with its name, the bytes that are there and all there will be.
    """
    check_name("name", name)
    check_integer("seed", seed, at_least=0)
    kind, _, address = name.partition(":")
    if image_size is not None:
        check_integer("image_size", image_size, at_least=1)
        if kind != "folder":
            raise invalid("image_size", "be left alone unless the images come from folder:", image_size)
    if kind == "folder":
        return load_folder(address, seed=seed, image_size=image_size)
    if kind == "pairs":
        return load_pairs(address, seed=seed)
    if name == "digits":
        return load_digits(seed=seed)
    if name == "functions":
        return load_functions().split
    return load_published(name, data_root(root), download=download, progress=progress)
