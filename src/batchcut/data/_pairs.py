"""`pairs:FILE`: two aligned arrays of features, memory-mapped where the format allows it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._npy import open_npy, open_npz
from ._obtain import existing
from ._parquet import open_parquet
from ._records import Pairs, Split
from ._safetensors import open_safetensors
from ._split import split_pairs

_PARTS = ("train_u", "train_v", "test_u", "test_v")
_WHOLE = ("u", "v")
_ROWS_AT_ONCE = 65_536

Arrays = Mapping[str, npt.NDArray[Any]]

_FORMATS: dict[str, Callable[[Path], Arrays]] = {
    ".npz": open_npz,
    ".parquet": open_parquet,
    ".safetensors": open_safetensors,
}


def load_pairs(address: str, *, seed: int) -> Split:
    """The pairs at `address`: a file, a folder of `.npy` files, or two `.npy` files with a comma between them.

    The arrays are named `train_u`, `train_v`, `test_u` and `test_v`, or `u` and `v`, which are split at random by the
    seed; in the second case the parts are copied into memory.
    """
    arrays = open_arrays(address)
    name = f"pairs:{address}"
    if all(part in arrays for part in _PARTS):
        train, test = (_checked(name, arrays, f"{part}_u", f"{part}_v", address) for part in ("train", "test"))
        return Split(train, test)
    if all(side in arrays for side in _WHOLE):
        return split_pairs(_checked(name, arrays, "u", "v", address), seed=seed)
    raise ValueError(
        f"{address} must hold arrays named {', '.join(_PARTS)}, or {' and '.join(_WHOLE)}; "
        f"got {', '.join(sorted(arrays)) or 'none'}"
    )


def open_arrays(address: str) -> Arrays:
    """The arrays at `address`, by name."""
    if "," in address and not Path(address).exists():
        sides = [part.strip() for part in address.split(",")]
        if len(sides) != 2:
            raise ValueError(
                f"pairs must be one file, a folder, or two .npy files; got {len(sides)} names in {address}"
            )
        return {name: open_npy(existing(Path(side))) for name, side in zip(_WHOLE, sides, strict=True)}
    path = Path(address)
    if path.is_dir():
        found = [name for name in (*_PARTS, *_WHOLE) if (path / f"{name}.npy").is_file()]
        return {name: open_npy(path / f"{name}.npy") for name in found}
    existing(path)
    if path.suffix in _FORMATS:
        return _FORMATS[path.suffix](path)
    raise ValueError(f"pairs must be .npz, .safetensors, .parquet, two .npy files or a folder of them; got {address}")


def _checked(name: str, arrays: Arrays, side_u: str, side_v: str, address: str) -> Pairs:
    try:
        pairs = Pairs(name, arrays[side_u], arrays[side_v])
        for side in (side_u, side_v):
            _check_finite(side, arrays[side])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{address}, {side_u} and {side_v}: {error}") from error
    return pairs


def _check_finite(name: str, values: npt.NDArray[Any]) -> None:
    for start in range(0, len(values), _ROWS_AT_ONCE):
        with np.errstate(over="ignore"):
            rows = values[start : start + _ROWS_AT_ONCE].astype(np.float32, copy=False)
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            row = start + int(bad.argmax())
            raise ValueError(f"{name} must hold numbers that are finite in single precision; got others in row {row}")
