"""Arrays in a `.parquet` file: a table with columns `u` and `v` of lists of floats."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._extras import needs

_SIDES = ("u", "v")
_PARTS = ("train", "test")


def open_parquet(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays by name: `u` and `v`, or where a column `split` says "train" or "test", those of each part."""
    with needs("pyarrow", "pairs in .parquet files"):
        import pyarrow
        import pyarrow.parquet
    try:
        names = pyarrow.parquet.read_schema(path).names
        wanted = [name for name in (*_SIDES, "split") if name in names]
        table = pyarrow.parquet.read_table(path, columns=wanted, memory_map=True)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"{path} must be a whole .parquet file; got one that fails: {error}") from error
    arrays = {side: _array(path, side, table.column(side)) for side in _SIDES if side in names}
    if "split" not in names:
        return arrays
    split = np.asarray(table.column("split").to_pylist(), object)
    odd = sorted({str(part) for part in split} - set(_PARTS))
    if odd:
        raise ValueError(f"{path} must say 'train' or 'test' in the column split; got {odd[0]!r}")
    return {f"{part}_{side}": array[split == part] for part in _PARTS for side, array in arrays.items()}


def _array(path: Path, name: str, column: Any) -> npt.NDArray[Any]:
    """(N, d) numbers of a column of lists, which must all have one length and no gaps."""
    chunks = []
    for chunk in column.chunks:
        flat = chunk.flatten() if hasattr(chunk, "flatten") else None
        if flat is None or chunk.null_count or flat.null_count:
            raise ValueError(f"{path} must hold lists of numbers without gaps in the column {name}; got {chunk.type}")
        values = flat.to_numpy(zero_copy_only=False)
        if len(chunk) and (
            len(values) % len(chunk) or set(chunk.value_lengths().to_pylist()) != {len(values) // len(chunk)}
        ):
            raise ValueError(f"{path} must hold lists of one length in the column {name}; got several")
        if len(chunk):
            chunks.append(values.reshape(len(chunk), -1))
    if not chunks:
        return np.empty((0, 1), np.float32)
    if len({chunk.shape[1] for chunk in chunks}) > 1:
        raise ValueError(f"{path} must hold lists of one length in the column {name}; got several")
    return np.concatenate(chunks)
