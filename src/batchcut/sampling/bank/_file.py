"""A bank in a file: a header, when each sample was recorded, and the embeddings; all mapped into memory."""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from weakref import WeakValueDictionary, finalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from batchcut._errors import invalid
from batchcut._files import check_room, make_once, try_lock, write_whole
from batchcut.sampling._batch import usable

_MAGIC = b"batchcut bank 2\n"
_NUMBERS = [(name, "<i8") for name in ("n", "dim", "itemsize", "clock")]
_HEADER = np.dtype([("magic", "S16"), *_NUMBERS, ("cosines", "<f4", 2)])
_SHARE_BYTES = 16
"""At the end of the file of a share: the number of its first sample, and of how many samples it is a share."""
_KINDS: dict[torch.dtype, np.dtype[Any]] = {torch.float32: np.dtype(np.float32), torch.float16: np.dtype(np.float16)}


NEVER, LATEST = -1, 2**62
"""Of the clock; beyond the latest only damage has it."""

LARGEST_COSINE = 1.001
"""Beyond it, it is not rounding."""

_ROWS_AT_ONCE = 65_536
_MOST_NAMED = 5


class _Lock:
    """That this process has a file open, as long as any bank in it does; the system ends it with the process."""

    def __init__(self, file: BinaryIO) -> None:
        finalize(self, file.close)


_open_here: WeakValueDictionary[tuple[int, int], _Lock] = WeakValueDictionary()
"""By device and number of the file: a bank that is copied within the process finds its file open."""


class Storage(NamedTuple):
    """What a bank keeps.

    Embeddings u, v: (n, dim), the clock at each sample's record: (n,), the clock: (1,), and mean cosines: (2,). With
    the lock of their file, if they are in one.
    """

    u: Tensor
    v: Tensor
    recorded_at: Tensor
    clock: NDArray[np.int64]
    cosines: Tensor
    lock: _Lock | None = None


def in_memory(n: int, dim: int, dtype: torch.dtype, device: torch.device) -> Storage:
    """An empty bank in memory."""
    u, v = torch.zeros(2, n, dim, dtype=dtype, device=device)
    cosines = torch.full((2,), torch.nan, device=device)
    return Storage(u, v, torch.full((n,), NEVER, device=device), np.zeros(1, np.int64), cosines)


def in_file(path: Path, held: range, of: int, dim: int, dtype: torch.dtype) -> Storage:
    """The rows of samples `held`, out of so many, in a file, which is made, empty, if it is not there.

    Any other file is refused and left as it is. So is one that another process has open. Rows that are damaged, or were
    being written when a process was killed, are left out, and a warning names them.
    """
    kind, n = _KINDS[dtype], len(held)
    rows_at = _HEADER.itemsize + 8 * n
    share = b"" if n == of else np.array([held.start, of], "<i8").tobytes()
    size = rows_at + 2 * n * dim * kind.itemsize
    if not path.exists():
        make_once(path, lambda: _create(path, n, dim, kind, size, share))
    _check(path, n, dim, kind, size + len(share))
    _check_share(path, held, of, size)
    lock, is_new = _locked(path)
    header = np.memmap(path, _HEADER, "r+", shape=(1,))
    recorded_at = np.memmap(path, np.int64, "r+", offset=_HEADER.itemsize, shape=(n,))
    u, v = torch.from_numpy(np.memmap(path, kind, "r+", offset=rows_at, shape=(2, n, dim)))
    cosines = torch.from_numpy(header["cosines"][0])
    storage = Storage(u, v, torch.from_numpy(recorded_at), header["clock"], cosines, lock)
    if is_new:
        _leave_out_damaged(path, storage)
    return storage


def _locked(path: Path) -> tuple[_Lock, bool]:
    """The lock of a file, and whether this process did not have it yet."""
    file = path.open("r+b")
    found = os.fstat(file.fileno())
    lock = _open_here.get((found.st_dev, found.st_ino))
    if lock is not None or try_lock(file) is False:
        file.close()
    if lock is not None:
        return lock, False
    if file.closed:
        raise invalid("path", "be of a bank that no other process has open; each needs a file of its own", path)
    lock = _open_here[found.st_dev, found.st_ino] = _Lock(file)
    return lock, True


def _leave_out_damaged(path: Path, storage: Storage) -> None:
    clock = int(storage.clock[0])
    if not 0 <= clock <= LATEST:
        raise invalid("path", f"hold a clock from 0 to {LATEST}", f"{clock} in {path}")
    storage.cosines[~(storage.cosines.abs() <= LARGEST_COSINE)] = torch.nan
    damaged: list[int] = []
    for start in range(0, len(storage.recorded_at), _ROWS_AT_ONCE):
        at = storage.recorded_at[start : start + _ROWS_AT_ONCE]
        rows = torch.nonzero(at != NEVER)[:, 0]
        for some in rows.split(max(1, _ROWS_AT_ONCE // max(1, storage.u.shape[1] // 64))):
            good = (at[some] >= 0) & (at[some] < clock)
            good &= usable(storage.u[start + some]) & usable(storage.v[start + some])
            at[some[~good]] = NEVER
            storage.u[start + some[~good]] = storage.v[start + some[~good]] = 0
            damaged += (start + some[~good]).tolist()
    if damaged:
        more = ", ..." if len(damaged) > _MOST_NAMED else ""
        named = ", ".join(map(str, damaged[:_MOST_NAMED]))
        warnings.warn(
            f"{path}: {len(damaged)} of {len(storage.recorded_at)} rows were damaged, or not finite, or zero, and are "
            f"taken for not recorded: {named}{more}",
            RuntimeWarning,
            stacklevel=5,
        )


def is_bank(path: Path) -> bool:
    """Whether a file begins as that of a bank does."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def bank_rows(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """U and v: (n, dim) in the file of a bank, mapped and read-only; every sample must have been recorded.

    The bank may be open in another process, such as one that plans from it: nothing is locked.
    """
    header = _header(path)
    n, dim, kind = int(header["n"]), int(header["dim"]), np.dtype(f"<f{int(header['itemsize'])}")
    size = _HEADER.itemsize + 8 * n + 2 * n * dim * kind.itemsize
    _check(path, n, dim, kind, size, size + _SHARE_BYTES)
    recorded_at = np.memmap(path, np.int64, "r", offset=_HEADER.itemsize, shape=(n,))
    missing = int(np.count_nonzero(recorded_at < 0))
    if missing:
        raise invalid(str(path), f"hold an embedding of each of its {n} samples", f"none of {missing}")
    u, v = np.memmap(path, kind, "r", offset=_HEADER.itemsize + 8 * n, shape=(2, n, dim))
    return u, v


def width_in_file(path: Path) -> int:
    """The width of the embeddings in the file of a bank."""
    return int(_header(path)["dim"])


def room_beside(path: Path, n: int, dim: int) -> tuple[Tensor, Tensor]:
    """Room for two times (n, dim) float32 in a file without a name in the folder of another, gone when it is let go."""
    check_room(path, 2 * 4 * n * dim)
    with tempfile.TemporaryFile(dir=path.parent) as file:
        u, v = torch.from_numpy(np.memmap(file, np.float32, "w+", shape=(2, n, dim)))
    return u, v


def _create(path: Path, n: int, dim: int, kind: np.dtype[Any], size: int, share: bytes) -> None:
    check_room(path, size)

    def write(file: BinaryIO) -> None:
        file.write(np.array([(_MAGIC, n, dim, kind.itemsize, 0, np.nan)], _HEADER).tobytes())
        file.write(np.full(n, NEVER, np.int64).tobytes())
        file.truncate(size)
        file.seek(size)
        file.write(share)

    write_whole(path, write)


def _check(path: Path, n: int, dim: int, kind: np.dtype[Any], *sizes: int) -> None:
    header = _header(path)
    found = (int(header["n"]), int(header["dim"]), 8 * int(header["itemsize"]))
    if found != (n, dim, 8 * kind.itemsize):
        rule = f"hold a bank of {n} samples, {dim} wide, in float{8 * kind.itemsize}"
        raise invalid("path", rule, f"{found[0]} samples, {found[1]} wide, in float{found[2]}, in {path}")
    if path.stat().st_size not in sizes:
        rule = f"hold {sizes[0]} bytes, as a whole bank of this size does"
        raise invalid("path", rule, f"{path.stat().st_size} in {path}")


def _check_share(path: Path, held: range, of: int, place: int) -> None:
    """Refuses the rows of other samples, of which there may be as many."""
    if len(held) == of:
        return
    first, count = np.fromfile(path, "<i8", offset=place).tolist()
    if (first, count) != (held.start, of):
        rule = f"be that of samples {held.start} to {held.stop} of {of}, as this process has kept it"
        raise invalid("path", rule, f"one from sample {first} on, of {count}, in {path}")


def _header(path: Path) -> Any:
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would be waited for
        raise invalid("path", "be the file of a bank, or not be there", f"{path}, a device or a pipe")
    with path.open("rb") as file:
        start = file.read(_HEADER.itemsize)
    if len(start) < _HEADER.itemsize or not start.startswith(_MAGIC):
        raise invalid("path", "be the file of a bank, or not be there", path)
    header = np.frombuffer(start, _HEADER)[0]
    if min(header["n"], header["dim"], header["itemsize"]) < 1:
        raise invalid("path", "be the file of a bank, or not be there", path)
    return header
