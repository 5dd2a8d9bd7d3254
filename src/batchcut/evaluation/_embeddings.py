"""What evaluation accepts: arrays or torch tensors of embeddings, made into unit rows."""

from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._errors import invalid, wrong_type

Floats = npt.NDArray[np.float32]


def unit_rows(argument: str, values: object) -> Floats:
    """`values` (N, d), an array or a torch tensor of floats, with rows of norm 1 in float32."""
    tensor: Any = values
    rows: npt.NDArray[Any] = np.asarray(tensor.detach().float().cpu() if hasattr(tensor, "detach") else tensor)
    if rows.ndim != 2 or 0 in rows.shape:
        raise invalid(argument, "have two dimensions (samples, features), none of them empty", f"shape {rows.shape}")
    if rows.dtype.kind != "f":
        raise wrong_type(argument, "hold floating-point numbers", rows.dtype.type(0))
    peaks = np.abs(rows).max(axis=1, keepdims=True).astype(np.float64)
    if not np.isfinite(peaks).all():
        raise invalid(argument, "hold finite numbers", f"others in row {int(np.argmin(np.isfinite(peaks[:, 0])))}")
    if (peaks == 0).any():
        raise invalid(argument, "have no zero rows", f"zeros in row {int(np.argmin(peaks[:, 0]))}")
    scaled = (rows / peaks).astype(np.float32)  # so that no square over- or underflows
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))
