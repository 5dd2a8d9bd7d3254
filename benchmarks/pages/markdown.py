"""Tables as Markdown has them."""

from collections.abc import Iterable, Sequence


def table_of(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table: its heads, and a line for each row of cells."""
    return "\n".join([_line(heads), "|---" * len(heads) + "|", *map(_line, rows)])


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
