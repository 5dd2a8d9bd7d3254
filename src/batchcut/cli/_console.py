"""Where results and progress are printed: results to the output, progress to the error stream."""

import sys

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leaves it to `main`: Rich itself would exit with the code of a failed check."""
        raise BrokenPipeError


def console() -> Console:
    """For results. Where the output is no terminal there is no width to fit into."""
    return _Console(width=None if sys.stdout.isatty() else 200)


def counting_progress(*, hidden: bool) -> Progress:
    """A bar that counts steps; it goes away when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return _passing(*columns, hidden=hidden)


def share_progress(*, hidden: bool) -> Progress:
    """A bar of the share of the work that is done, with the time left; it goes away when the work is done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return _passing(*columns, hidden=hidden)


def _passing(*columns: ProgressColumn, hidden: bool) -> Progress:
    """Where the error stream is no terminal, Rich would leave an empty line of a bar that goes away."""
    errors = Console(stderr=True)
    return Progress(*columns, console=errors, transient=True, disable=hidden or not errors.is_terminal)
