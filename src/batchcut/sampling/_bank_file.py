"""A bank in a file: a header, when each sample was recorded, and the embeddings; all mapped into memory."""

import tempfile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from batchcut._errors import invalid
from batchcut._files import write_whole

_MAGIC = b"batchcut bank 2\n"
_NUMBERS = [(name, "<i8") for name in ("n", "dim", "itemsize", "clock")]
_HEADER = np.dtype([("magic", "S16"), *_NUMBERS, ("cosines", "<f4", 2)])
_KINDS: dict[torch.dtype, np.dtype[Any]] = {torch.float32: np.dtype(np.float32), torch.float16: np.dtype(np.float16)}


class Storage(NamedTuple):
    """What a bank keeps.

    Embeddings u, v: (n, dim), the clock at each sample's record: (n,), the clock: (1,), and mean cosines: (2,).
    """

    u: Tensor
    v: Tensor
    recorded_at: Tensor
    clock: NDArray[np.int64]
    cosines: Tensor


def in_memory(n: int, dim: int, dtype: torch.dtype, device: torch.device) -> Storage:
    """An empty bank in memory."""
    u, v = torch.zeros(2, n, dim, dtype=dtype, device=device)
    cosines = torch.full((2,), torch.nan, device=device)
    return Storage(u, v, torch.full((n,), -1, device=device), np.zeros(1, np.int64), cosines)


def in_file(path: Path, n: int, dim: int, dtype: torch.dtype) -> Storage:
    """The bank in a file, which is made, empty, if it is not there; any other file is refused and left as it is."""
    kind = _KINDS[dtype]
    rows_at = _HEADER.itemsize + 8 * n
    size = rows_at + 2 * n * dim * kind.itemsize
    if path.exists():
        _check(path, n, dim, kind, size)
    else:
        _create(path, n, dim, kind, size)
    header = np.memmap(path, _HEADER, "r+", shape=(1,))
    recorded_at = np.memmap(path, np.int64, "r+", offset=_HEADER.itemsize, shape=(n,))
    u, v = torch.from_numpy(np.memmap(path, kind, "r+", offset=rows_at, shape=(2, n, dim)))
    return Storage(u, v, torch.from_numpy(recorded_at), header["clock"], torch.from_numpy(header["cosines"][0]))


def width_in_file(path: Path) -> int:
    """The width of the embeddings in the file of a bank."""
    return int(_header(path)["dim"])


def room_beside(path: Path, n: int, dim: int) -> tuple[Tensor, Tensor]:
    """Room for two times (n, dim) float32 in a file without a name in the folder of another, gone when it is let go."""
    with tempfile.TemporaryFile(dir=path.parent) as file:
        u, v = torch.from_numpy(np.memmap(file, np.float32, "w+", shape=(2, n, dim)))
    return u, v


def _create(path: Path, n: int, dim: int, kind: np.dtype[Any], size: int) -> None:
    def write(file: BinaryIO) -> None:
        file.write(np.array([(_MAGIC, n, dim, kind.itemsize, 0, np.nan)], _HEADER).tobytes())
        file.write(np.full(n, -1, np.int64).tobytes())
        file.truncate(size)

    write_whole(path, write)


def _check(path: Path, n: int, dim: int, kind: np.dtype[Any], size: int) -> None:
    header = _header(path)
    found = (int(header["n"]), int(header["dim"]), 8 * int(header["itemsize"]))
    if found != (n, dim, 8 * kind.itemsize):
        rule = f"hold a bank of {n} samples, {dim} wide, in float{8 * kind.itemsize}"
        raise invalid("path", rule, f"{found[0]} samples, {found[1]} wide, in float{found[2]}, in {path}")
    if path.stat().st_size != size:
        rule = f"hold {size} bytes, as a whole bank of this size does"
        raise invalid("path", rule, f"{path.stat().st_size} in {path}")


def _header(path: Path) -> Any:
    with path.open("rb") as file:
        start = file.read(_HEADER.itemsize)
    if len(start) < _HEADER.itemsize or not start.startswith(_MAGIC):
        raise invalid("path", "be the file of a bank, or not be there", path)
    return np.frombuffer(start, _HEADER)[0]
