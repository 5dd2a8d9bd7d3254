"""What evaluation accepts: arrays or torch tensors of embeddings, made into unit rows."""

from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut import selection
from batchcut._errors import invalid

Floats = npt.NDArray[np.float32]


def unit_rows(argument: str, values: object) -> Floats:
    """`values` (N, d), an array or a torch tensor of floats, with rows of norm 1 in float32."""
    tensor: Any = values
    shape = np.shape(tensor)
    if len(shape) != 2 or 0 in shape:
        raise invalid(argument, "have two dimensions (samples, features), none of them empty", f"shape {tuple(shape)}")
    return np.asarray(selection.unit_rows(argument, values, at_least=1))
