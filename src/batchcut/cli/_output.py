"""How results are printed."""

import json
import math
import sys
from collections.abc import Mapping

from rich.console import Console

COLUMNS = {
    "top1": "top-1",
    "top5": "top-5",
    "top10": "top-10",
    "mrr": "MRR",
    "mean_rank": "mean rank",
    "median_rank": "median rank",
}
"""Headings, by the names that scores have in JSON."""

SHARES = ("top1", "top5", "top10")
"""Those that are shares of the samples."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leaves it to `main`: Rich itself would exit with the code of a failed check."""
        raise BrokenPipeError


def console(*, width: int | None = None) -> Console:
    """For results. Where the output is no terminal there is no width to fit into, unless one is given."""
    return _Console(width=width or (None if sys.stdout.isatty() else 200))


def as_json(content: object) -> str:
    """JSON as its standard has it, for any reader: what is not finite becomes null."""
    return json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(content: object) -> object:
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def cell(scores: dict[str, float], name: str) -> str:
    """A score, with its spread over draws where there is one."""
    value, spread = scores[name], scores.get(f"{name}_spread")
    if name not in SHARES:
        return f"{value:.4g}"
    return f"{100 * value:.1f} %" if spread is None else f"{100 * value:.1f} ± {100 * spread:.1f} %"
