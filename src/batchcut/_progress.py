"""What long work tells while it goes on."""

from collections.abc import Callable

Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


def part_of(progress: Progress, low: float, high: float) -> Progress:
    """For a part of the work, from the share `low` to the share `high` of the whole."""
    return lambda share: progress((1 - share) * low + share * high)


def silent(*_: object) -> None:
    """Tells nobody."""
