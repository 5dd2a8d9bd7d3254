"""One page that shows all results: a single file that needs no network."""

import base64
import importlib.resources
from collections.abc import Sequence
from pathlib import Path

import batchcut
from batchcut._files import write_bytes

from ._run import Outcome

PAGE = "index.html"


def write_page(folder: Path, outcomes: Sequence[Outcome]) -> Path:
    """Writes the page of the given results, whose pictures are in the folder."""
    path = folder / PAGE
    write_bytes(path, page(folder, outcomes).encode())
    return path


def page(folder: Path, outcomes: Sequence[Outcome]) -> str:
    """The page as HTML."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["duration"] = _duration
    template = importlib.resources.files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    entries = [
        {
            "item": outcome.item,
            "outcome": outcome,
            "light": _embedded(folder / outcome.item.folder / "figure.svg"),
            "dark": _embedded(folder / outcome.item.folder / "figure-dark.svg"),
            "alt": outcome.item.presentation.describe(outcome.data),
            "caption": outcome.item.presentation.caption(outcome.data),
            "tables": outcome.item.presentation.tables(outcome.data),
        }
        for outcome in outcomes
    ]
    return environment.from_string(template).render(entries=entries, version=batchcut.__version__)


def _embedded(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
