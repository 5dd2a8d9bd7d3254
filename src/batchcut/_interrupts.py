"""Ctrl-C that stays Ctrl-C."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Gives back an interrupt that came just as a compiled function returned: CPython makes a SystemError of it."""
    try:
        yield
    except SystemError as error:
        cause = error.__cause__
        while isinstance(cause, SystemError):  # a compiled function that returns arrays makes them in Python: twice
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
