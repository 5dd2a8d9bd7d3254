"""Pictures of the documents that show no training: the four words, batches on a map, what a plan costs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batchcut.paper._style import BLUE, GREEN, ORANGE, VERMILION, faint, ink, style
from batchcut.selection import Cut, Selector, Shuffle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SC = "SC (authors), pool of 40"
_BATCH, _KINDS, _SAMPLES, _REACH = 16, 16, 256, 0.9

ENDINGS = (".svg#only-light", "-dark.svg#only-dark")
"""How the name of a picture for light and for dark pages ends."""


def both(folder: Path, name: str) -> tuple[Path, Path]:
    """Where the picture of that name lies, for light and for dark pages."""
    return folder / f"{name}.svg", folder / f"{name}-dark.svg"


def draw_panels(paths: tuple[Path, Path], size: tuple[float, float], panels: int, draw: Callable[..., None]) -> None:
    """Draws into so many panels side by side, in a file for light and in one for dark pages."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    for path, dark in zip(paths, (False, True), strict=True):
        with style(dark=dark):
            figure, axes = plt.subplots(1, panels, figsize=size, squeeze=False)
            draw(*axes[0])
            figure.savefig(path, metadata={"Date": None})
            plt.close(figure)


def draw_concepts(folder: Path) -> None:
    """Bank, selector, plan and sampler, and the step between them."""
    draw_panels(both(folder, "concepts"), (7.6, 3.0), 1, _concepts)


_BOXES = {
    "your step": ("your step", "embeds a batch, takes the loss", (5.0, 2.1), faint()),
    "bank": ("bank", "last embedding\nof each sample", (1.3, 0.6), BLUE),
    "selector": ("selector", "which samples\nshare a batch", (3.8, 0.6), GREEN),
    "plan": ("plan", "the batches\nof one epoch", (6.2, 0.6), ORANGE),
    "sampler": ("sampler", "hands them out,\nin random order", (8.7, 0.6), VERMILION),
}
_WIDTH, _HEIGHT = 1.9, 0.95


def _concepts(panel: "Axes") -> None:
    from matplotlib.patches import FancyBboxPatch

    panel.set(xlim=(0, 10), ylim=(-0.1, 2.8))
    panel.axis("off")
    for title, below, (x, y), color in _BOXES.values():
        width = _WIDTH * (1.9 if y > 1 else 1)
        corner = (x - width / 2, y - _HEIGHT / 2)
        shape = "round,pad=0.02,rounding_size=0.12"
        panel.add_patch(FancyBboxPatch(corner, width, _HEIGHT, shape, edgecolor=color, facecolor="none", linewidth=1.6))
        panel.text(x, y + 0.25, title, ha="center", va="center", weight="bold", size=10)
        panel.text(x, y - 0.15, below, ha="center", va="center", size=8)
    _arrow(panel, (3.15, 2.1), (1.3, 1.15), "record(u, v)", (1.25, 1.75))
    for start, end in (((2.3, 0.6), (2.8, 0.6)), ((4.8, 0.6), (5.2, 0.6)), ((7.2, 0.6), (7.7, 0.6))):
        _arrow(panel, start, end)
    _arrow(panel, (8.7, 1.15), (6.85, 2.1), "the next batch", (8.75, 1.75))


def _arrow(
    panel: "Axes",
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    at: tuple[float, float] = (0.0, 0.0),
) -> None:
    panel.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": ink(), "linewidth": 1.2})
    if text:
        panel.text(*at, text, ha="center", va="center", size=8.5)


def draw_batches(folder: Path) -> None:
    """Some batches of `Shuffle` and of `Cut` among made-up samples that lie on a map."""
    draw_panels(both(folder, "batches"), (7.6, 3.6), 2, _batches)


def _batches(left: "Axes", right: "Axes") -> None:
    rng = np.random.default_rng(3)
    map_ = np.clip(rng.normal(0, 0.42, (_KINDS, 2))[rng.integers(_KINDS, size=_SAMPLES)], -1, 1)
    map_ = map_ + rng.normal(0, 0.16, map_.shape)
    rows = np.column_stack([_REACH * map_, np.ones(_SAMPLES)])  # directions near one pole, so that the map is flat
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    selectors: tuple[tuple[str, Selector], ...] = (("shuffled", Shuffle()), ("planned by Cut", Cut(margin=None)))
    for panel, (title, selector) in zip((left, right), selectors, strict=True):
        plan = selector(rows, rows, batch_size=_BATCH, temperature=0.05, seed=0)
        panel.scatter(map_[:, 0], map_[:, 1], s=9, color=faint(), alpha=0.55, linewidths=0)
        for batch, color in zip(plan.batches[:: len(plan) // 3], (BLUE, VERMILION, GREEN), strict=False):
            panel.scatter(map_[batch, 0], map_[batch, 1], s=26, color=color, linewidths=0)
        panel.set(title=title, xticks=[], yticks=[])
        panel.set_aspect("equal")
        for side in panel.spines.values():
            side.set_visible(False)


def draw_cost(facts: dict[str, Any], folder: Path) -> None:
    """Seconds of a plan against the number of samples."""
    draw_panels(both(folder, "cost"), (6.6, 3.6), 1, lambda panel: _cost(panel, facts))


def _cost(panel: "Axes", facts: dict[str, Any]) -> None:
    count = {name: int(re.sub(r"\D", "", about.split()[0])) for name, about in facts["about"].items()}
    for method, label, color, marker in (
        (_SC, "spectral clustering, pools of 40", BLUE, "^"),
        ("Cut", "Cut", VERMILION, "s"),
        ("Shuffle", "Shuffle", faint(), "o"),
    ):
        measured = {count[name]: rows[method]["seconds"] for name, rows in facts["rows"].items() if method in rows}
        points = sorted(measured.items())
        panel.plot(*zip(*points, strict=True), color=color, marker=marker, linestyle="none", label=label)
    panel.set(xscale="log", yscale="log", xlabel="samples, N", ylabel="seconds of a plan, two cores")
    panel.set_xlim(8e3, 2e6)
    panel.grid(axis="both", color=faint(), alpha=0.3, linewidth=0.6)
    panel.minorticks_off()
    panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
