"""Arrays in `.npy` and `.npz` files, memory-mapped: an `.npz` file too, where it is not compressed."""

import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

_LOCAL_HEADER = struct.Struct("<26x2H")  # of a zip member: the lengths of its name and of what comes after it
_SIGNATURE = b"PK\x03\x04"
_HEADER_LIMIT = 10_000
_FAULTS = (OSError, EOFError, ValueError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile)


def open_npy(path: Path) -> npt.NDArray[Any]:
    """The array in a `.npy` file, memory-mapped and read-only."""
    try:
        with path.open("rb") as file:
            return _mapped(path, file)
    except FileNotFoundError:
        raise
    except _FAULTS as error:
        raise ValueError(f"{path} must be a whole .npy file of numbers; got one that fails: {error}") from error


def open_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays in an `.npz` file by name: memory-mapped where they are stored as they are, read where compressed."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            return {
                member.filename.removesuffix(".npy"): _member(path, file, archive, member)
                for member in archive.infolist()
                if member.filename.endswith(".npy")
            }
    except FileNotFoundError:
        raise
    except _FAULTS as error:
        raise ValueError(f"{path} must be a whole .npz file of numbers; got one that fails: {error}") from error


def _member(path: Path, file: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    if member.compress_type != zipfile.ZIP_STORED:
        with archive.open(member) as packed:
            return np.lib.format.read_array(packed, allow_pickle=False)
    file.seek(member.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or not header.startswith(_SIGNATURE):
        raise ValueError(f"{member.filename} is not where the archive says")
    file.seek(sum(_LOCAL_HEADER.unpack(header)), 1)
    return _mapped(path, file)


def _mapped(path: Path, file: IO[bytes]) -> npt.NDArray[Any]:
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(file, max_header_size=_HEADER_LIMIT)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")
