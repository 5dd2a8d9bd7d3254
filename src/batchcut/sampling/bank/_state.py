"""What the state of a bank must hold to fit."""

from collections.abc import Mapping

import torch
from torch import Tensor

from batchcut._errors import check_integer, invalid, wrong_dtype, wrong_type

from ._file import LARGEST_COSINE, LATEST, NEVER


def check_bank_state(state: object, *, rows: int, width: int) -> None:
    """Refuses what is not the state of a bank of so many rows; a width of 0 is one that is not known yet."""
    rule = "be of an EmbeddingBank, with u, v, recorded_at, clock and cosines"
    if not isinstance(state, Mapping):
        raise wrong_type("state", rule, state)
    if not set(state) >= {"u", "v", "recorded_at", "clock", "cosines"}:
        raise invalid("state", rule, sorted(map(str, state)))
    for name in ("u", "v", "recorded_at"):
        _check_kind(f"state[{name!r}]", state[name], integers=name == "recorded_at")
    width = int(state["u"].shape[-1]) if state["u"].ndim == 2 and 0 in (width, state["u"].shape[1]) else width
    for name, shape in {"u": (rows, width), "v": (rows, width), "recorded_at": (rows,)}.items():
        if tuple(state[name].shape) != shape:
            raise invalid(f"state[{name!r}]", f"have shape {shape}, as in this bank", tuple(state[name].shape))
    latest = max(NEVER, int(state["recorded_at"].max()))
    check_integer("state['clock']", state["clock"], at_least=latest + 1, at_most=LATEST)
    _check_cosines(state["cosines"])


def _check_kind(argument: str, value: object, *, integers: bool) -> None:
    if not isinstance(value, Tensor):
        raise wrong_type(argument, "be a torch tensor", value)
    if integers and (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool):
        raise wrong_dtype(argument, "hold integers", str(value.dtype))
    if not integers and not value.is_floating_point():
        raise wrong_dtype(argument, "hold floats", str(value.dtype))


def _check_cosines(value: object) -> None:
    argument, rule = "state['cosines']", "be a list of two cosines, or None where there is none"
    if not isinstance(value, (list, tuple)) or any(type(x) not in (int, float, type(None)) for x in value):
        raise wrong_type(argument, rule, value)
    if len(value) != 2 or not all(x is None or abs(x) <= LARGEST_COSINE for x in value):
        raise invalid(argument, rule, value)
