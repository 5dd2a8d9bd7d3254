"""From a name to a data set."""

import os
from collections.abc import Callable
from pathlib import Path

from batchcut._errors import check_integer, invalid, wrong_type

from ._cifar import load_cifar10, load_cifar100
from ._digits import load_digits
from ._pairs import load_pairs
from ._records import Split

_FOLDERS: dict[str, tuple[str, Callable[[Path], Split]]] = {
    "cifar10": ("cifar-10-batches-py", load_cifar10),
    "cifar100": ("cifar-100-python", load_cifar100),
}
_PREFIXES: dict[str, Callable[..., Split]] = {"pairs": load_pairs}
NAMES = ("digits", *sorted(_FOLDERS))


def load(name: str, *, root: Path | None = None, download: bool = False, seed: int = 0) -> Split:
    """The data set of that name, in a part to learn from and one for the test.

    - `digits`: scikit-learn's, always at hand.
    - `cifar10`, `cifar100`: in their official layout in a folder of `root`.
    - `pairs:FILE`: two aligned arrays of features.

    Args:
        name: One of the names above.
        root: The folder where data sets are kept; None: `$BATCHCUT_DATA`, or else `batchcut` in the user's cache.
        download: Fetch what is missing from the official address.
        seed: Splits a set that comes without a test part: a fifth of it, at most 10,000 samples.
    """
    if not isinstance(name, str):
        raise wrong_type("name", "be a string", name)
    check_integer("seed", seed, at_least=0)
    kind, colon, address = name.partition(":")
    if colon and kind in _PREFIXES:
        if not address:
            raise invalid("name", f"say where after {kind}:", repr(name))
        return _PREFIXES[kind](address, seed=seed)
    if name == "digits":
        return load_digits(seed=seed)
    if name not in _FOLDERS:
        known = ", ".join((*NAMES, *(f"{prefix}:PATH" for prefix in _PREFIXES)))
        raise invalid("name", f"be one of {known}", repr(name))
    folder, read = _FOLDERS[name]
    return read((default_root() if root is None else Path(root)) / folder)


def default_root() -> Path:
    """Where data sets are kept unless told otherwise: `$BATCHCUT_DATA`, or else `batchcut` in the user's cache."""
    if told := os.environ.get("BATCHCUT_DATA"):
        return Path(told).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "batchcut"
