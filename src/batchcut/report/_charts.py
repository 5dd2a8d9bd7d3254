"""The charts of the page, each with its words and its table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ._compare import Comparison, Curve, Group
from ._coverage import Coverage, same_class_series
from ._run import Array
from ._svg import STYLES, Series, bar_chart, line_chart, number, outline_chart, percent, shared_edges

PARTS = ("planning", "training", "evaluation", "checkpoint")
_EPOCHS = 6
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart and the table of what it shows.

    Attributes:
        title: its heading.
        svg: the drawing; empty where there is nothing to draw.
        columns: the headings of the table.
        rows: the cells of the table, as text.
    """

    title: str
    svg: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def accuracy_chart(comparison: Comparison) -> Chart:
    """Top-1 accuracy against the step."""
    curves = [group.accuracy() for group in comparison.groups]
    return _curve_chart(comparison, curves, title="Retrieval accuracy (top-1)", y_label="top-1", y_text=percent)


def loss_chart(comparison: Comparison) -> Chart:
    """The loss of the batches trained on against the step."""
    curves = [group.loss() for group in comparison.groups]
    return _curve_chart(comparison, curves, title="Loss of the batches trained on", y_label="loss", y_text=number)


def effective_size_chart(comparison: Comparison) -> Chart:
    """The effective batch size against the epoch; of shuffled batches it is their own size."""
    curves = [group.effective_sizes() for group in comparison.groups]
    title = "Effective batch size"
    return _curve_chart(comparison, curves, title=title, y_label="samples", y_text=_whole, x_label="epoch")


def time_chart(comparison: Comparison) -> Chart:
    """Seconds of a run by what they went into."""
    rows = [(group.label, [group.seconds(part) for part in PARTS]) for group in comparison.groups]
    title = "Where the seconds of a run go"
    words = "; ".join(f"{label} {values[0]:.2f} s of {sum(values):.1f} s" for label, values in rows)
    svg = bar_chart(rows, PARTS, name=title, summary=f"Planning: {words}.")
    cells = [
        [label, *(f"{value:.2f}" for value in values), f"{values[0] / (sum(values) or 1):.1%}"]
        for label, values in rows
    ]
    return Chart(title=title, svg=svg, columns=("method", *PARTS, "share of planning"), rows=cells)


def loss_histograms(comparison: Comparison) -> list[Chart]:
    """Histograms of the loss of single batches, by method, for some epochs from the first to the last."""
    pooled = [(group, _pooled_losses(group)) for group in comparison.groups]
    epochs = sorted({epoch for _, one in pooled for epoch in one})
    if not epochs:
        return []
    chosen = [epochs[at] for at in np.unique(np.linspace(0, len(epochs) - 1, _EPOCHS).round().astype(int))]
    return histograms(
        {
            f"Epoch {epoch + 1}": [
                (group.label, group.place % STYLES, one[epoch]) for group, one in pooled if epoch in one
            ]
            for epoch in chosen
        }
    )


def histograms(parts: Mapping[str, Sequence[tuple[str, int, Array]]]) -> list[Chart]:
    """A chart for each title: of labels, styles and batch losses (n,); all on the same axes."""
    edges = shared_edges([losses for part in parts.values() for *_, losses in part])
    shares = {
        title: [(style, np.histogram(losses, edges)[0] / len(losses)) for _, style, losses in part]
        for title, part in parts.items()
    }
    high = max(float(heights.max()) for part in shares.values() for _, heights in part)
    charts = []
    for title, part in parts.items():
        cells = [[label, *(number(float(v)) for v in np.quantile(losses, _QUANTILES))] for label, _, losses in part]
        words = "; ".join(f"{row[0]} median {row[3]}" for row in cells)
        name, drawn = f"Batch loss, {title}", shares[title]
        svg = outline_chart(edges, drawn, high=high, name=name, summary=f"{words}.")
        columns = ("method", "lowest", "quarter", "median", "three quarters", "highest")
        charts.append(Chart(title=title, svg=svg, columns=columns, rows=cells))
    return charts


def same_class_chart(comparison: Comparison, coverages: Sequence[Coverage], chance: float) -> Chart | None:
    """The share of pairs of one class in the batches against the epoch."""
    known = [one for one in coverages if np.isfinite(one.by_epoch[1]).all()]
    if not known:
        return None
    style = {group.label: group.place % STYLES for group in comparison.groups}
    title = "Pairs of one class in a batch"
    epochs = np.unique(np.concatenate([one.by_epoch[0] for one in known]))
    level = np.full(2, chance)
    ends = np.array([epochs[0], epochs[-1]])
    expected = Series(label="by chance", style=STYLES, x=ends, y=level, low=level, high=level, marks=False)
    svg = line_chart(
        [expected, *(same_class_series(one, style[one.label]) for one in known)],
        name=title,
        summary="; ".join(f"{one.label} {percent(one.same_class)}" for one in known)
        + f"; by chance {percent(chance)}, the dashed line.",
        x_label="epoch",
        y_label="share of pairs",
        y_text=percent,
        from_zero=True,
    )
    cells = [
        [number(float(epoch)), *(_at(one.by_epoch[0], one.by_epoch[1], float(epoch)) for one in known)]
        for epoch in epochs
    ]
    return Chart(title=title, svg=svg, columns=("epoch", *(one.label for one in known)), rows=cells)


def _at(epochs: Array, shares: Array, epoch: float) -> str:
    found = shares[epochs == epoch]
    return percent(float(found[0])) if len(found) else "–"


def _pooled_losses(group: Group) -> dict[int, Array]:
    parts: dict[int, list[Array]] = {}
    for run in group.runs:
        for epoch, losses in run.losses_by_epoch().items():
            parts.setdefault(epoch, []).append(losses)
    return {epoch: np.concatenate(losses) for epoch, losses in parts.items()}


def _curve_chart(
    comparison: Comparison,
    curves: Sequence[Curve],
    *,
    title: str,
    y_label: str,
    y_text: Callable[[float], str],
    x_label: str = "step",
) -> Chart:
    title += f", {comparison.task}" if comparison.task else ""
    svg = line_chart(
        _series(comparison.groups, curves),
        name=title,
        summary=f"At the end: {_ends(comparison.groups, curves, y_text)}.",
        x_label=x_label,
        y_label=y_label,
        y_text=y_text,
    )
    columns = [x_label, *(group.label for group in comparison.groups)]
    return Chart(title=title, svg=svg, columns=columns, rows=_table(curves, y_text))


def _series(groups: Sequence[Group], curves: Sequence[Curve]) -> list[Series]:
    return [
        Series(
            label=group.label,
            style=group.place % STYLES,
            x=curve.steps,
            y=curve.mean,
            low=curve.low,
            high=curve.high,
            marks=True,
        )
        for group, curve in zip(groups, curves, strict=True)
    ]


def _ends(groups: Sequence[Group], curves: Sequence[Curve], text: Callable[[float], str]) -> str:
    pairs = zip(groups, curves, strict=True)
    return "; ".join(f"{group.label} {text(float(curve.mean[-1]))}" for group, curve in pairs if len(curve.steps))


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _table(curves: Sequence[Curve], text: Callable[[float], str]) -> list[list[str]]:
    steps = sorted({int(step) for curve in curves for step in curve.steps})
    rows = []
    for step in steps:
        cells = []
        for curve in curves:
            at = np.flatnonzero(curve.steps == step)
            if len(at) == 0:
                cells.append("–")
                continue
            mean, low, high = (float(values[at[0]]) for values in (curve.mean, curve.low, curve.high))
            cells.append(text(mean) if high == low else f"{text(mean)} ({text(low)} to {text(high)})")
        rows.append([number(step), *cells])
    return rows
