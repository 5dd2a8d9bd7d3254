"""How pictures look: fonts that can be read in print, colours that the colour-blind can tell apart."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ._item import Data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
)
"""The palette of Okabe and Ito."""

DIVERGING = "PuOr_r"
"""For inner products, from -1 to 1: orange and purple, white at 0; safe for the colour-blind."""

_COMMON: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "batchcut",
    "image.interpolation": "nearest",
}
_LIGHT, _DARK = ("#1b1b1b", "#ffffff"), ("#e8e8e8", "#16181c")


def ink() -> str:
    """The colour of text and axes in the current style."""
    import matplotlib as mpl

    return str(mpl.rcParams["text.color"])


def faint() -> str:
    """A colour for what must not draw attention, such as grid lines."""
    return "#9a9a9a"


@contextmanager
def style(*, dark: bool = False) -> Iterator[None]:
    """Within it, pictures are drawn in the style of the page, dark on light or light on dark."""
    import matplotlib as mpl

    front, back = _DARK if dark else _LIGHT
    colors = dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"), front
    )
    backs = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), back)
    settings: dict[Any, Any] = {**_COMMON, **colors, **backs}
    with mpl.rc_context(settings):
        yield


def pictures(draw: "Callable[[Data], Figure]", data: Data) -> dict[str, bytes]:
    """The picture as SVG for light and for dark pages, and as PNG."""
    drawn = {}
    for name, dark, options in (
        ("figure.svg", False, {"format": "svg", "metadata": {"Date": None}}),
        ("figure-dark.svg", True, {"format": "svg", "metadata": {"Date": None}}),
        ("figure.png", False, {"format": "png", "dpi": 150}),
    ):
        with style(dark=dark):
            figure = draw(data)
            buffer = io.BytesIO()
            figure.savefig(buffer, bbox_inches="tight", pad_inches=0.08, **options)  # nothing touches the edge
        drawn[name] = buffer.getvalue()
    return drawn
