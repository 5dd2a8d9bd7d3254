"""Ctrl-C that stays Ctrl-C."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Gives back an interrupt that came just as a compiled function returned: CPython makes a SystemError of it."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
