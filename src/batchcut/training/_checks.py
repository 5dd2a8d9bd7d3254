"""Checks of settings, beside those that every part of the library shares."""

import math
from numbers import Real

from batchcut._errors import check_integer, check_positive, invalid, wrong_type


def check_text(argument: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise invalid(argument, "be a text that is not empty", repr(value))


def check_optional(argument: str, value: int | None, *, at_least: int) -> None:
    if value is not None:
        check_integer(argument, value, at_least=at_least)


def check_share(argument: str, value: float) -> None:
    if check_positive(argument, value) > 1:
        raise invalid(argument, "be above 0 and at most 1", value)


def check_at_least_zero(argument: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(argument, "be a number", value)
    if not (math.isfinite(value) and float(value) >= 0):
        raise invalid(argument, "be finite and at least 0", value)
