"""Arrays of an `.npz` file, read to the end or mapped into memory; both ways prove their checksums."""

import math
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_BYTES_AT_ONCE = 1 << 20


def read_member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """An array of an `.npz` file, whose checksum is proven as it is read to the end."""
    with archive.open(f"{name}.npy") as file:
        array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):
            raise ValueError(f"{name} is followed by more")
        return array


def map_member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """An array of an `.npz` file, mapped into memory after its checksum was proven."""
    entry = archive.getinfo(f"{name}.npy")
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, and cannot be mapped")
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, kind = header(file)
        place = file.tell()
        while file.read(_BYTES_AT_ONCE):
            pass
    if kind.hasobject or entry.file_size != place + math.prod(shape) * kind.itemsize:
        raise ValueError(f"{name} has {entry.file_size} bytes, which are not those of its shape {shape}")
    with Path(str(archive.filename)).open("rb") as file_of_all:
        file_of_all.seek(entry.header_offset + 26)  # where the local header says how long its last two parts are
        place += entry.header_offset + 30 + sum(struct.unpack("<HH", file_of_all.read(4)))
        if not math.prod(shape):  # no bytes, and nothing to map
            return np.empty(shape, kind)
        return np.memmap(file_of_all, kind, "r", place, shape, "F" if by_columns else "C")
