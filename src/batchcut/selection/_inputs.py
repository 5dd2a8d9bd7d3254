"""What selectors accept: arrays of many kinds, made into unit rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._errors import check_integer, invalid, wrong_dtype, wrong_type

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_ROWS_AT_ONCE = 65_536
_UNIT_ALREADY = 1e-5
_SHORT, _LONG = 1e-30, 1e30  # norms between which a quotient in float32 is as exact as any other


@dataclass(frozen=True)
class Pairs:
    """N positive pairs: unit rows u (N, d) and v (N, d), float32 and contiguous."""

    u: Floats
    v: Floats

    @cached_property
    def positive(self) -> Floats:
        """(N,) similarities of each sample to its own positive."""
        return np.asarray(np.einsum("ij,ij->i", self.u, self.v))

    def sums(self, samples: Ints) -> Floats:
        """(n, d) sums u + v of some samples. Unlike indexing, `take` lets other threads work."""
        total = self.u.take(samples, axis=0)
        total += self.v.take(samples, axis=0)
        return total

    def __len__(self) -> int:
        return int(self.u.shape[0])

    @property
    def dim(self) -> int:
        """The length d of an embedding."""
        return int(self.u.shape[1])


def unit_pairs(u: object, v: object) -> Pairs:
    """Checks u and v (N, d) and returns them with unit rows in float32; no copy where they are so already."""
    rows_u, rows_v = unit_rows("u", u), unit_rows("v", v)
    check_same_shape(rows_u, rows_v)
    return Pairs(rows_u, rows_v)


def check_same_shape(u: npt.NDArray[Any], v: npt.NDArray[Any]) -> None:
    """Refuses u and v that are not the two sides of the same pairs."""
    if u.shape != v.shape:
        raise invalid("v", f"have the shape of u, {u.shape}", v.shape)


def unit_rows(
    argument: str,
    values: object,
    *,
    dtype: type[np.floating[Any]] = np.float32,
    at_least: int = 2,
    first: int = 0,
) -> npt.NDArray[Any]:
    """Returns `values` (N, d) with unit rows as a contiguous array of `dtype`.

    The rows are read in blocks, so that a memory-mapped or float16 array needs no second whole copy. Where all are unit
    vectors already, they stay as they are. Errors count rows from `first` on.
    """
    source = as_array(argument, values)
    if source.ndim != 2:
        raise invalid(argument, "have two dimensions (samples, features)", f"shape {source.shape}")
    if source.dtype.kind != "f":
        raise wrong_dtype(argument, "hold floating-point numbers", source.dtype.name)
    if source.shape[0] < at_least or source.shape[1] < 1:
        raise invalid(argument, f"have at least {at_least} rows and 1 column", f"shape {source.shape}")
    norms = np.concatenate([_norms(argument, block, first + start) for start, block in _blocks(source)])
    if float(np.abs(norms - 1).max()) <= _UNIT_ALREADY:  # so that a copy of another kind gives the same plan
        return np.require(source, dtype, "C").view(np.ndarray)
    rows = np.empty(source.shape, dtype)
    for start, block in _blocks(source):
        stop = start + len(block)
        np.divide(_wide(block), norms[start:stop, None], out=rows[start:stop], casting="same_kind")
        for row in np.flatnonzero(~((norms[start:stop] > _SHORT) & (norms[start:stop] < _LONG))):
            rows[start + row] = _unit(_wide(block[row]))
    return rows


def as_array(argument: str, values: object) -> npt.NDArray[Any]:
    """A NumPy view of an array, a memory map, a nested list or a torch tensor (torch itself is not imported)."""
    tensor: Any = values
    if hasattr(tensor, "detach") and hasattr(tensor, "cpu"):
        try:
            tensor = tensor.detach().cpu()
            if str(tensor.dtype) == "torch.bfloat16":  # NumPy has no such type
                tensor = tensor.float()
            return np.asarray(tensor.numpy())
        except (TypeError, RuntimeError) as error:  # sparse, quantised, without data
            found = f"{tensor.dtype}, {tensor.layout}, on {tensor.device}"
            raise wrong_dtype(argument, "be a dense tensor of a type that NumPy has", found) from error
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise invalid(argument, "have no masked entries", f"{int(values.mask.sum())} of {values.size}")
    try:
        array = values if isinstance(values, np.ndarray) else np.asarray(tensor)
    except ValueError as error:
        raise invalid(argument, "be an array", f"{type(values).__name__} ({error})") from error
    if array.ndim == 0 and not isinstance(values, np.ndarray):
        raise wrong_type(argument, "be an array", values)
    return array


def check_batch_size(batch_size: object, count: int) -> int:
    """Returns the batch size, if it lies between 2 and the number of samples."""
    size = check_integer("batch_size", batch_size, at_least=2)
    if size > count:
        raise invalid("batch_size", f"be at most the number of samples, {count}", size)
    return size


def _blocks(source: npt.NDArray[Any]) -> list[tuple[int, npt.NDArray[Any]]]:
    starts = range(0, len(source), _ROWS_AT_ONCE)
    return [(start, source[start : start + _ROWS_AT_ONCE]) for start in starts]


def _wide(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The block in float32 or float64, in the order in memory that sums are rounded the same way in."""
    return np.ascontiguousarray(block, np.float64 if block.dtype.itemsize > 4 else np.float32)


def _norms(argument: str, block: npt.NDArray[Any], start: int) -> npt.NDArray[Any]:
    wide = _wide(block)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    tiny = 1e-15 if wide.dtype == np.float32 else 1e-150
    for row in np.flatnonzero(~((norms > tiny) & np.isfinite(norms))):
        if not np.isfinite(wide[row]).all():
            raise invalid(
                argument,
                "hold finite numbers",
                f"{wide[row][~np.isfinite(wide[row])][0]} in row {start + row}",
            )
        peak = np.abs(wide[row]).max()
        if peak == 0:
            raise invalid(argument, "have no zero rows", f"zeros in row {start + row}")
        with np.errstate(over="ignore"):  # a norm may be beyond all numbers of its kind
            norms[row] = peak * np.sqrt(np.square(wide[row] / peak).sum())  # squares alone would over- or underflow
    return np.asarray(norms)


def _unit(row: npt.NDArray[Any]) -> npt.NDArray[Any]:
    scaled = row / np.abs(row).max()
    return np.asarray(scaled / np.sqrt(np.square(scaled).sum()))
