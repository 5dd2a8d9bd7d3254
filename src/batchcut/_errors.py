"""Checks of arguments that every part of the library shares; an error names the argument, the rule and the value."""

import builtins
import difflib
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import SupportsFloat

_LONGEST = 500


def invalid(argument: str, rule: str, got: object) -> ValueError:
    """The error for an argument of the right type with a value that breaks a rule."""
    return ValueError(f"{argument} must {rule}; got {shortened(str(got))}")


def shortened(text: str) -> str:
    """A value or a reason on one line, as far as it fits into a message."""
    line = " ".join(text.split()) if "\n" in text else text
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def wrong_type(argument: str, rule: str, got: object) -> TypeError:
    """The error for an argument of the wrong type."""
    kind = type(got)
    name = kind.__name__
    if getattr(builtins, name, kind) is not kind:  # as numpy.bool is not bool
        name = f"{kind.__module__}.{name}"
    return TypeError(f"{argument} must {rule}; got {name}")


def wrong_dtype(argument: str, rule: str, got: str) -> TypeError:
    """The error for an array whose entries are of a wrong type, given its name."""
    return TypeError(f"{argument} must {rule}; got {got}")


def check_integer(argument: str, value: object, *, at_least: int, at_most: int | None = None) -> int:
    """Returns `value` as an int, if it is one and lies in the range."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise wrong_type(argument, "be an integer", value)
    number = int(value)
    if number < at_least:
        raise invalid(argument, f"be at least {at_least}", value)
    if at_most is not None and number > at_most:
        raise invalid(argument, f"be at most {at_most}", value)
    return number


def without_number(error: OSError) -> str:
    """What the system refused, and of which file, without the number that it has for it."""
    if error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def check_number(argument: str, value: object, rule: str = "be a number") -> float:
    """Returns `value` as a float, if it is a number, finite or not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(argument, rule, value)
    return as_float(value)


def check_positive(argument: str, value: object, *, at_most: float = math.inf) -> float:
    """Returns `value` as a float, if it is a finite number above zero, and no larger than that."""
    number = check_number(argument, value)
    if not (math.isfinite(number) and number > 0):
        raise invalid(argument, "be finite and above 0", value)
    if number > at_most:
        raise invalid(argument, f"be above 0 and at most {at_most:g}", value)
    return number


def check_at_least_zero(argument: str, value: object) -> float:
    """Returns `value` as a float, if it is a finite number and not below zero."""
    number = check_number(argument, value)
    if not 0 <= number < math.inf:
        raise invalid(argument, "be finite and at least 0", value)
    return number


def check_share(argument: str, value: object) -> float:
    """Returns `value` as a float, if it is a number from 0 to below 1."""
    number = check_number(argument, value)
    if not 0 <= number < 1:
        raise invalid(argument, "be at least 0 and below 1", value)
    return number


def check_progress(progress: object) -> None:
    """Refuses, before the work, what cannot be told."""
    if progress is not None and not callable(progress):
        raise wrong_type("progress", "be None or a function of one number", progress)


def as_float(value: SupportsFloat) -> float:
    """The number as a float; infinity where it is beyond all of them, which Python calls an error."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_flag(argument: str, value: object) -> None:
    """Refuses anything but True and False."""
    if not isinstance(value, bool):
        raise wrong_type(argument, "be True or False", value)


def check_choice(argument: str, value: object, choices: Collection[str]) -> None:
    """Refuses a value that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise invalid(argument, f"be one of {', '.join(map(repr, choices))}", repr(value))


def unknown_name(argument: str, value: str, names: Collection[str], *, listed: str) -> ValueError:
    """The error for a name that is not among many; `listed` says what names them all."""
    close = difflib.get_close_matches(value, names, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return ValueError(f"{argument} must be a name that is known; got {value!r}\n{hint}{listed} names all {len(names)}.")


@contextmanager
def needs(library: str, purpose: str) -> Iterator[None]:
    """Turns a failed import inside the block into an error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f'{purpose} need {library}, and {error.name} is not installed: pip install "batchcut[train]" brings it'
        ) from error
