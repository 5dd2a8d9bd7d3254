"""Checks of tensors that every loss shares.

Values are read only where that is free: on the CPU. On an accelerator reading a value would make each step wait for the
device, so a NaN that enters there comes out as a NaN loss.
"""

import torch
from torch import Tensor

from batchcut._errors import check_positive, invalid, wrong_type


def check_pair(u: Tensor, v: Tensor) -> None:
    """Raises unless `u` and `v` are (n, d) embeddings of the same n >= 2 positive pairs."""
    check_forms(u, v, at_least=2)
    check_values("u", u)
    check_values("v", v)


def check_embeddings(argument: str, x: Tensor) -> None:
    """Raises unless `x` holds n >= 2 embeddings, finite and none of them zero."""
    check_form(argument, x, at_least=2)
    check_values(argument, x)


def check_forms(u: Tensor, v: Tensor, *, at_least: int) -> None:
    """Raises unless `u` and `v` are (n, d) floating tensors of one shape, dtype and device, with n >= `at_least`."""
    check_form("u", u, at_least=at_least)
    check_form("v", v, at_least=at_least)
    if u.shape != v.shape:
        raise invalid("v", f"have the shape of u, {tuple(u.shape)}", tuple(v.shape))
    if u.dtype != v.dtype:
        raise invalid("v", f"have the dtype of u, {u.dtype}", v.dtype)
    if u.device != v.device:
        raise invalid("v", f"be on the device of u, {u.device}", v.device)


def check_form(argument: str, x: Tensor, *, at_least: int) -> None:
    """Raises unless `x` is an (n, d) floating tensor with n >= `at_least` and d >= 1."""
    if not isinstance(x, Tensor):
        raise wrong_type(argument, "be a torch tensor", x)
    if not x.is_floating_point():
        raise TypeError(f"{argument} must have a floating dtype; got {x.dtype}")
    if x.ndim != 2:
        raise invalid(argument, "have shape (n, d)", tuple(x.shape))
    if x.shape[0] < at_least or x.shape[1] < 1:
        rule = f"hold at least {at_least} embeddings of at least 1 dimension"
        raise invalid(argument, rule, f"shape {tuple(x.shape)}")


def check_values(argument: str, x: Tensor) -> None:
    """Raises unless the rows of x: (n, d) are finite and none of them is zero."""
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return
    # The largest entry, not the length: the squares of a length overflow and underflow long before the entries do.
    sizes = torch.linalg.vector_norm(x.detach(), ord=torch.inf, dim=1)
    good = torch.isfinite(sizes) & (sizes > 0)
    if bool(good.all()):
        return
    row = int(torch.argmin(good.to(torch.int8)))
    if not bool(torch.isfinite(sizes[row])):
        raise invalid(argument, "be finite", f"{_first_bad(x[row])} in row {row}")
    raise invalid(argument, "hold no zero vector", f"one in row {row}")


def _first_bad(row: Tensor) -> float:
    return float(row.detach()[~torch.isfinite(row)][0])


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
