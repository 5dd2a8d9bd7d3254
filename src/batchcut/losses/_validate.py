"""Checks of tensors that every loss shares.

Values are read only where that is free: on the CPU. On an accelerator reading a value would make each step wait for the
device, so a NaN that enters there comes out as a NaN loss.
"""

import torch
from torch import Tensor

from batchcut._errors import check_positive, invalid, wrong_type


def check_pair(u: Tensor, v: Tensor) -> None:
    """Raises unless `u` and `v` are (n, d) embeddings of the same n >= 2 positive pairs."""
    check_embeddings("u", u)
    check_embeddings("v", v)
    if u.shape != v.shape:
        raise invalid("v", f"have the shape of u, {tuple(u.shape)}", tuple(v.shape))
    if u.dtype != v.dtype:
        raise invalid("v", f"have the dtype of u, {u.dtype}", v.dtype)
    if u.device != v.device:
        raise invalid("v", f"be on the device of u, {u.device}", v.device)


def check_embeddings(argument: str, x: Tensor) -> None:
    """Raises unless `x` is an (n, d) floating tensor, n >= 2, with finite rows none of which is zero."""
    if not isinstance(x, Tensor):
        raise wrong_type(argument, "be a torch tensor", x)
    if not x.is_floating_point():
        raise TypeError(f"{argument} must have a floating dtype; got {x.dtype}")
    if x.ndim != 2:
        raise invalid(argument, "have shape (n, d)", tuple(x.shape))
    if x.shape[0] < 2 or x.shape[1] < 1:
        raise invalid(argument, "hold at least 2 embeddings of at least 1 dimension", f"shape {tuple(x.shape)}")
    if x.device.type == "cpu" and not torch.compiler.is_compiling():
        _check_values(argument, x)


def _check_values(argument: str, x: Tensor) -> None:
    norms = torch.linalg.vector_norm(x.detach(), dim=1, dtype=torch.promote_types(x.dtype, torch.float32))
    good = torch.isfinite(norms) & (norms > 0)
    if bool(good.all()):
        return
    row = int(torch.argmin(good.to(torch.int8)))
    # A norm can overflow or underflow although the entries are in order.
    if not bool(torch.isfinite(x[row]).all()):
        raise invalid(argument, "be finite", f"{_first_bad(x[row])} in row {row}")
    if not bool(x[row].any()):
        raise invalid(argument, "hold no zero vector", f"one in row {row}")
    rest = torch.cat([x[:row], x[row + 1 :]])
    if len(rest):
        _check_values(argument, rest)


def _first_bad(row: Tensor) -> float:
    return float(row[~torch.isfinite(row)][0])


def check_temperature(temperature: float | Tensor) -> float | Tensor:
    """Returns `temperature` if it is a number above 0, or a tensor that holds one (so that it can be learned)."""
    if not isinstance(temperature, Tensor):
        return check_positive("temperature", temperature)
    if temperature.numel() != 1 or not temperature.is_floating_point():
        raise invalid(
            "temperature",
            "be a number or a floating tensor with one",
            f"{temperature.dtype} {tuple(temperature.shape)}",
        )
    if temperature.device.type == "cpu" and not torch.compiler.is_compiling():
        check_positive("temperature", temperature.item())
    return temperature.reshape(())
