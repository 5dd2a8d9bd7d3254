"""Charts as SVG: their colours are the page's, so that they follow light and dark; no chart speaks by colour alone.

Made by hand: a chart of a plotting library has its colours drawn in, and a page would need two of each.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from ._run import Array

WIDTH, HEIGHT = 440, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 14, 14, 46
STYLES = 6
"""How many series can be told apart; more begin again."""

_ROOM = 36  # letters in the width of a chart, by the largest type that the style has

_MARKS = ("circle", "square", "triangle", "diamond", "cross", "ring")


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """A line with a band: (n,) each; low and high may be the line itself."""

    label: str
    style: int
    x: Array
    y: Array
    low: Array
    high: Array
    marks: bool = True


@dataclass(frozen=True, kw_only=True)
class Scale:
    """From values to places, with ticks at round numbers."""

    low: float
    high: float
    start: float
    end: float
    whole: bool = False

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low or 1.0)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers within the scale."""
        span = self.high - self.low or 1.0
        raw = span / most
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * 0.999)
        step = max(1.0, round(step)) if self.whole else step
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """A number in as few digits as tell it from its neighbours."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 1000 or value == round(value) else f"{value:.3g}"
    return text.replace("-", "−")


def percent(value: float) -> str:
    """A share in per cent."""
    return f"{value * 100:.3g} %" if math.isfinite(value) else "–"


def score(value: float) -> str:
    """A retrieval score in per cent, with as many digits as its gain and its spread."""
    return f"{value * 100:.1f} %" if math.isfinite(value) else "–"


def line_chart(
    series: Sequence[Series],
    *,
    name: str,
    summary: str,
    x_label: str,
    y_label: str,
    y_text: Callable[[float], str] = number,
    from_zero: bool = False,
) -> str:
    """Lines with bands against a common axis."""
    shown = [s for s in series if len(s.x)]
    if not shown:
        return ""
    x = _scale([s.x for s in shown], _LEFT, WIDTH - _RIGHT, pad=0.0, whole=True)
    y = _scale([v for s in shown for v in (s.low, s.high)], HEIGHT - _BOTTOM, _TOP, pad=0.05, from_zero=from_zero)
    parts = [_frame(x, y, x_label, y_label, number, y_text)]
    for one in shown:
        there = [f"{x(a)},{y(b)}" for a, b in zip(one.x, one.high, strict=True)]
        back = [f"{x(a)},{y(b)}" for a, b in zip(one.x[::-1], one.low[::-1], strict=True)]
        if (one.high > one.low).any():
            parts.append(f'<polygon class="band s{one.style}" points="{" ".join(there + back)}"/>')
    for one in shown:
        points = " ".join(f"{x(a)},{y(b)}" for a, b in zip(one.x, one.y, strict=True))
        parts.append(f'<polyline class="line s{one.style}" points="{points}"/>')
        if one.marks:
            every = max(1, len(one.x) // 10)
            at = range(len(one.x) - 1, -1, -every)
            parts += [mark(one.style, x(float(one.x[i])), y(float(one.y[i]))) for i in at]
    return _svg(parts, WIDTH, HEIGHT, name, summary)


def outline_chart(edges: Array, shares: Sequence[tuple[int, Array]], *, high: float, name: str, summary: str) -> str:
    """Histograms of batch losses over the same edges: (n + 1,), as outlines; a style and (n,) heights for each."""
    width, height = 300, 190
    x = Scale(low=float(edges[0]), high=float(edges[-1]), start=52, end=width - 10)
    y = Scale(low=0, high=high, start=height - 40, end=10)
    parts = [_frame(x, y, "batch loss", "share of batches", number, percent, ticks=4)]
    for style, heights in shares:
        corners = [f"{x(float(edges[0]))},{y(0)}"]
        for left, right, top in zip(edges[:-1], edges[1:], heights, strict=True):
            corners += [f"{x(float(left))},{y(float(top))}", f"{x(float(right))},{y(float(top))}"]
        corners.append(f"{x(float(edges[-1]))},{y(0)}")
        parts.append(f'<polygon class="fill s{style}" points="{" ".join(corners)}"/>')
        parts.append(f'<polyline class="line s{style}" points="{" ".join(corners)}"/>')
    return _svg(parts, width, height, name, summary)


def bar_chart(rows: Sequence[tuple[str, Sequence[float]]], parts_of: Sequence[str], *, name: str, summary: str) -> str:
    """Stacked bars, one a row: the seconds of the parts, in order."""
    row_height, left = 44, 12
    height = _BOTTOM + row_height * len(rows) + 8
    x = Scale(low=0, high=max(sum(values) for _, values in rows) or 1.0, start=left, end=WIDTH - 40)
    parts = [_vertical_grid(x, height - _BOTTOM, "seconds, mean over seeds")]
    for row, (label, values) in enumerate(rows):
        top, at = 4 + row * row_height, 0.0
        words = f"{label}: {number(sum(values))} s"
        fitted = f' textLength="{WIDTH - 2 * left}" lengthAdjust="spacingAndGlyphs"' if len(words) > _ROOM else ""
        parts.append(f'<text class="label" x="{left}" y="{top + 13}"{fitted}>{escape(words)}</text>')
        for part, value in enumerate(values):
            from_, to = x(at), x(at + value)
            tip = f"<title>{escape(label)}, {escape(parts_of[part])}: {value:.2f} s</title>"
            size = f'x="{from_}" y="{top + 18}" width="{round(to - from_, 1)}" height="18"'
            parts.append(f'<rect class="part p{part}" {size}>{tip}</rect>')
            at += value
    return _svg(parts, WIDTH, height, name, summary)


def mark(style: int, x: float, y: float) -> str:
    """The mark of a series; each style has its own."""
    kind, r = _MARKS[style % STYLES], 3.6
    css = f'class="mark s{style}"'
    if kind in ("circle", "ring"):
        hollow = ' fill-opacity="0"' if kind == "ring" else ""
        return f'<circle {css} cx="{x}" cy="{y}" r="{r}"{hollow}/>'
    shapes: dict[str, list[tuple[float, float]]] = {
        "square": [(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)],
        "triangle": [(0, -4.4), (4.2, 3.2), (-4.2, 3.2)],
        "diamond": [(0, -4.8), (4.4, 0), (0, 4.8), (-4.4, 0)],
        "cross": [(-4, -4), (4, 4), (0, 0), (4, -4), (-4, 4), (0, 0)],
    }
    points = " ".join(f"{round(x + a, 1)},{round(y + b, 1)}" for a, b in shapes[kind])
    return f'<polygon {css} points="{points}"/>'


def key_mark(style: int, *, marked: bool = True) -> str:
    """A short piece of a series' line, with its mark if it has one, for a key."""
    line = f'<polyline class="line s{style}" points="0,6 26,6"/>' + (mark(style, 13, 6) if marked else "")
    return f'<svg class="key" viewBox="0 0 26 12" aria-hidden="true">{line}</svg>'


def _scale(
    values: Sequence[Array], start: float, end: float, *, pad: float, from_zero: bool = False, whole: bool = False
) -> Scale:
    low, high = float(min(v.min() for v in values)), float(max(v.max() for v in values))
    room = (high - low) * pad or (pad and abs(high) * pad)
    return Scale(low=0.0 if from_zero else low - room, high=high + room, start=start, end=end, whole=whole)


def _frame(
    x: Scale,
    y: Scale,
    x_label: str,
    y_label: str,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    ticks: int = 5,
) -> str:
    lines = []
    for tick in y.ticks(ticks):
        lines.append(f'<line class="grid" x1="{x.start}" x2="{x.end}" y1="{y(tick)}" y2="{y(tick)}"/>')
        lines.append(f'<text class="tick" x="{x.start - 6}" y="{y(tick) + 4}" text-anchor="end">{y_text(tick)}</text>')
    below = f'y="{y.start + 17}" text-anchor="middle"'
    lines += [f'<text class="tick" x="{x(tick)}" {below}>{x_text(tick)}</text>' for tick in x.ticks(ticks)]
    lines.append(f'<line class="axis" x1="{x.start}" x2="{x.end}" y1="{y.start}" y2="{y.start}"/>')
    middle = (x.start + x.end) / 2
    lines.append(f'<text class="tick" x="{middle}" y="{y.start + 36}" text-anchor="middle">{escape(x_label)}</text>')
    turned = f'text-anchor="middle" transform="translate(11 {(y.start + y.end) / 2}) rotate(-90)"'
    return "".join(lines) + (f'<text class="tick" {turned}>{escape(y_label)}</text>' if ticks == 5 else "")


def _vertical_grid(x: Scale, bottom: float, label: str) -> str:
    lines = []
    for tick in x.ticks(5):
        lines.append(f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="4" y2="{bottom}"/>')
        lines.append(f'<text class="tick" x="{x(tick)}" y="{bottom + 16}" text-anchor="middle">{number(tick)}</text>')
    middle = (x.start + x.end) / 2
    return "".join(lines) + (
        f'<text class="tick" x="{middle}" y="{bottom + 34}" text-anchor="middle">{escape(label)}</text>'
    )


def _svg(parts: Sequence[str], width: float, height: float, name: str, summary: str) -> str:
    size = f'viewBox="0 0 {width} {height}"'
    label = escape(f"{name}. {summary}", quote=True)
    return f'<svg class="chart" role="img" {size} aria-label="{label}">{"".join(parts)}</svg>'


def shared_edges(values: Sequence[Array]) -> Array:
    """(25,) edges from the lowest to the highest of all values."""
    low, high = float(min(v.min() for v in values)), float(max(v.max() for v in values))
    return np.linspace(low, high if high > low else low + 1.0, 25)
