"""Arrays in a `.safetensors` file, memory-mapped.

The format is a length (8 bytes, little-endian), a header of that length in JSON, and the arrays one after the other.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2"}
_LONGEST_HEADER = 100_000_000


def open_safetensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of floats by name, read-only; those in bfloat16, which NumPy lacks, are read into float32."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _LONGEST_HEADER):
                raise ValueError(f"its header should take {length} bytes")
            header = json.loads(file.read(length))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return {name: _mapped(path, name, entry, 8 + length, size) for name, entry in entries.items()}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} must be a whole .safetensors file of floats; got one that fails: {error}") from error


def _mapped(path: Path, name: str, entry: dict[str, Any], start: int, size: int) -> npt.NDArray[Any]:
    kind, shape, (first, last) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if kind not in _DTYPES:
        raise ValueError(f"{name} holds {kind}")
    dtype = np.dtype(_DTYPES[kind])
    if not all(isinstance(number, int) and number >= 0 for number in (*shape, first, last)):
        raise ValueError(f"{name} has the shape {shape}")
    if last - first != math.prod(shape) * dtype.itemsize or start + last > size:
        raise ValueError(f"{name} should take bytes {first} to {last}")
    if first == last:
        return np.empty(shape, np.float32 if kind == "BF16" else dtype)
    mapped = np.memmap(path, dtype, "r", start + first, shape)
    if kind == "BF16":
        return (mapped.astype(np.uint32) << 16).view(np.float32)
    return mapped
