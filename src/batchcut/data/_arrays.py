"""Arrays in files: `.npy` and `.safetensors` memory-mapped, `.npz` and `.parquet` read into memory."""

import json
import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._errors import needs
from batchcut._files import existing_file, reading

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

SIDES = ("u", "v")
PARTS = ("train", "test")
SIDES_OF_PARTS = tuple(f"{part}_{side}" for part in PARTS for side in SIDES)

_ALL_SIDES = (*SIDES, *SIDES_OF_PARTS)
_SAFETENSORS_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2"}
_LONGEST_HEADER = 100_000_000


@dataclass(frozen=True, eq=False)
class BFloat16:
    """Numbers in bfloat16, which NumPy lacks, mapped into memory; those that are taken become float32."""

    bits: npt.NDArray[np.uint16]

    @property
    def shape(self) -> tuple[int, ...]:
        """As an array has it."""
        return self.bits.shape

    @property
    def ndim(self) -> int:
        """As an array has it."""
        return self.bits.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what is taken."""
        return np.dtype(np.float32)

    def __getitem__(self, rows: slice | EllipsisType | npt.NDArray[np.int64]) -> Array:
        wide: Array = (self.bits[rows].astype(np.uint32) << 16).view(np.float32)
        return wide


def open_arrays(address: str) -> Arrays:
    """The arrays at `address`, by name: in a file, a folder of `.npy` files, or two of them with a comma between."""
    path, *more = sides = places_at(address)
    if more:
        if len(sides) != 2:
            raise ValueError(
                f"pairs must be one file, a folder, or two .npy files; got {len(sides)} names in {address}"
            )
        return {name: open_npy(existing_file(side)) for name, side in zip(SIDES, sides, strict=True)}
    if path.is_dir():
        files = {name: path / f"{name}.npy" for name in (*SIDES_OF_PARTS, *SIDES)}
        return {name: open_npy(file) for name, file in files.items() if file.is_file()}
    existing_file(path)
    if path.suffix in _FORMATS:
        return _FORMATS[path.suffix](path)
    raise ValueError(f"pairs must be .npz, .safetensors, .parquet, two .npy files or a folder of them; got {address}")


def names_of_sides(arrays: Arrays) -> tuple[str, str] | None:
    """The names of the two sides: u and v; of just two arrays, theirs, in the order of the file; else None."""
    if all(side in arrays for side in SIDES):
        return SIDES
    if len(arrays) != 2:
        return None
    first, second = arrays
    return first, second


def places_at(address: str) -> list[Path]:
    """The file or folder that an address names, or the files, with commas between."""
    if "," in address and not Path(address).exists():
        return [Path(part.strip()) for part in address.split(",")]
    return [Path(address)]


def open_npy(path: Path) -> Array:
    """The array in a `.npy` file, memory-mapped and read-only."""
    with reading(path, "be a whole .npy file of numbers"):
        return np.lib.format.open_memmap(path, mode="r")


def _read_npz(path: Path) -> Arrays:
    """The arrays in an `.npz` file by name."""
    with reading(path, "be a whole .npz file of numbers"), zipfile.ZipFile(path) as archive:
        arrays = {}
        for member in archive.namelist():
            if member.endswith(".npy"):
                with archive.open(member) as file:
                    arrays[member.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
                    if file.read(1):  # to the end, where the checksum is proven
                        raise ValueError(f"{member} holds more than its array")
        return arrays


def open_safetensors(path: Path) -> Mapping[str, Array | BFloat16]:
    """The arrays of floats by name, memory-mapped and read-only; others are left out.

    The format is a length (8 bytes, little-endian), a header of that length in JSON, and the arrays one after the
    other. It is read by hand because the library's own reader copies each array into memory.
    """
    with reading(path, "be a whole .safetensors file of floats"):
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _LONGEST_HEADER):
                raise ValueError(f"its header should take {length} bytes")
            header = json.loads(file.read(length))
        arrays = {name: entry for name, entry in header.items() if name != "__metadata__"}
        wanted = {name: entry for name, entry in arrays.items() if name in _ALL_SIDES or _is_of_floats(entry)}
        return {name: _mapped(path, name, entry, 8 + length, size) for name, entry in wanted.items()}


def _read_safetensors(path: Path) -> Arrays:
    """The same, with those in bfloat16 read into float32."""
    return {name: x[...] if isinstance(x, BFloat16) else x for name, x in open_safetensors(path).items()}


def _is_of_floats(entry: dict[str, Any]) -> bool:
    return entry["dtype"] in _SAFETENSORS_DTYPES


def _mapped(path: Path, name: str, entry: dict[str, Any], start: int, size: int) -> Array | BFloat16:
    kind, shape, (first, last) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if not _is_of_floats(entry):
        raise ValueError(f"{name} holds {kind}")
    dtype = np.dtype(_SAFETENSORS_DTYPES[kind])
    if not all(isinstance(number, int) and number >= 0 for number in (*shape, first, last)):
        raise ValueError(f"{name} has the shape {shape}")
    if last - first != math.prod(shape) * dtype.itemsize or start + last > size:
        raise ValueError(f"{name} should take bytes {first} to {last}")
    mapped = np.empty(shape, dtype) if first == last else np.memmap(path, dtype, "r", start + first, shape)
    return BFloat16(mapped) if kind == "BF16" else mapped


def _read_parquet(path: Path) -> Arrays:
    """The columns `u` and `v` of lists of floats; where a column `split` says "train" or "test", those of each part."""
    with needs("pyarrow", "pairs in .parquet files"):
        import pyarrow.parquet
    with reading(path, "be a whole .parquet file"):
        names = pyarrow.parquet.read_schema(path).names
        wanted = [name for name in (*SIDES, "split") if name in names]
        table = pyarrow.parquet.read_table(path, columns=wanted, memory_map=True)
        split = np.asarray(table.column("split").to_pylist(), object) if "split" in names else None
        arrays = {side: rows_of_lists(side, table.column(side)) for side in SIDES if side in names}
    if split is None:
        return arrays
    odd = sorted({str(part) for part in split} - set(PARTS))
    if odd:
        raise ValueError(f"{path} must say 'train' or 'test' in the column split; got {odd[0]!r}")
    return {f"{part}_{side}": array[split == part] for part in PARTS for side, array in arrays.items()}


def rows_of_lists(name: str, column: Any) -> Array:
    """(N, d) numbers of a column of lists, which must all have one length and no gaps."""
    blocks = []
    for chunk in column.chunks:
        if not hasattr(chunk, "value_lengths"):
            raise ValueError(f"no lists of numbers in the column {name}, but {chunk.type}")
        flat = chunk.flatten()
        if chunk.null_count or flat.null_count:
            raise ValueError(f"a list or a number is missing in the column {name}")
        lengths = set(chunk.value_lengths().to_pylist())
        if len(lengths) == 1:
            blocks.append(flat.to_numpy(zero_copy_only=False).reshape(len(chunk), -1))
        if len(lengths) > 1 or (blocks and blocks[-1].shape[1] != blocks[0].shape[1]):
            raise ValueError(f"lists of several lengths in the column {name}")
    return np.concatenate(blocks) if blocks else np.empty((0, 1), np.float32)


_FORMATS: dict[str, Callable[[Path], Arrays]] = {
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".safetensors": _read_safetensors,
}
