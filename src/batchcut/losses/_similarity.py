"""Unit rows and their products, in float32 at least."""

import torch
import torch.nn.functional as F
from torch import Tensor


def similarities(u: Tensor, v: Tensor, temperature: float | Tensor) -> Tensor:
    """Inner products over the temperature, (..., n, d) and (..., m, d) to (..., n, m), in float32 at least.

    Made in float32 from the start, under autocast too: half precision overflows at 65504 and is off by several
    percent after the division by a small temperature.
    """
    with without_autocast(u):
        return at_least_float32(u) @ at_least_float32(v).mT / temperature


def at_least_float32(x: Tensor) -> Tensor:
    """The tensor itself, or a float32 copy of one in half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def unit_rows(x: Tensor) -> Tensor:
    """Rows (..., d) scaled to unit length, in float32 at least.

    By the largest entry first: the squares of a length overflow and underflow long before the entries do.
    """
    wide = at_least_float32(x)
    return F.normalize(wide / wide.detach().abs().amax(dim=-1, keepdim=True), dim=-1)


def without_autocast(x: Tensor) -> torch.autocast:
    """A context in which operations on the device of `x` keep their precision."""
    return torch.autocast(x.device.type, enabled=False)
