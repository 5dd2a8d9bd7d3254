"""The tables and the plot of docs/benchmarks.md from the results of `selection.py --json`; `tables.py` writes them."""

from pathlib import Path
from typing import Any

_SHOWN = ("S1", "S2", "S3", "S4")
_PLACES = [(right, up) for far in range(0, 120, 4) for up in ((far, -far) if far else (0,)) for right in (True, False)]
_SC = "SC (authors), pool of 40"
_COLUMNS = (
    "method",
    "mean batch loss",
    "mean sample loss",
    "seconds",
    "peak memory, MiB",
    "batches a sample is in",
)


def table(facts: dict[str, Any]) -> str:
    """The measured comparison in Markdown: a table per set."""
    parts = []
    for name, rows in facts["rows"].items():
        parts += [f"**{name}**: {facts['about'][name]}", ""]
        parts += [f"| {' | '.join(_COLUMNS)} |"]
        parts += ["|---" * len(_COLUMNS) + "|"]
        for method, row in rows.items():
            losses = f"{row['loss']:.4f} | {row['by_sample']:.4f}"
            cells = f"{row['seconds']:.2f} | {row['memory'] / 2**20:.0f} | {times_used(row)}"
            parts.append(f"| {method} | {losses} | {cells} |")
        if name in facts["bounds"]:
            parts += ["", f"`Cut` reaches {facts['bounds'][name]:.1%} of the upper bound on the weight."]
        parts.append("")
    return "\n".join(parts)


def times_used(row: dict[str, Any]) -> str:
    """In how many batches a sample is: one, or so many on average of those that are in any."""
    return "1" if row["exact"] else f"{row['times']:.1f}"


def bars_table(facts: dict[str, Any]) -> str:
    """The bars in Markdown, and after them what is there for information."""
    lines = ["| bar | measured | must be | |", "|---|---|---|---|"]
    for bar in facts["bars"]:
        sign = "≥" if bar["at_least"] else "≤"
        verdict = "pass" if bar["passed"] else "**fail**"
        lines.append(f"| {bar['name']} | {bar['value']:.3g} | {sign} {bar['bound']:g} | {verdict} |")
    lines += [f"| {note['name']} | {note['value']:.3g} | – | for information |" for note in facts["notes"]]
    return "\n".join(lines)


def summary_table(facts: dict[str, Any]) -> str:
    """A line for each set: the mean batch loss and the seconds of shuffled, spectral and cut batches."""
    lines = ["| set | shuffled | SC, pools of 40 | `Cut`, pools of 40 | `Cut` |", "|---|---|---|---|---|"]
    for name, rows in facts["rows"].items():
        cells = [_loss_and_seconds(rows.get(method)) for method in ("Shuffle", _SC, "Cut, pool of 40", "Cut")]
        lines.append(f"| {name}: {facts['about'][name]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _loss_and_seconds(row: dict[str, Any] | None) -> str:
    return "–" if row is None else f"{row['loss']:.3f} in {row['seconds']:.2f} s"


def plot(facts: dict[str, Any], path: Path) -> None:
    """Mean batch loss against seconds, one panel per set."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "batchcut"  # the same results give the same file
    from matplotlib import pyplot as plt

    shown = [name for name in _SHOWN if name in facts["rows"]]
    figure, panels = plt.subplots(1, len(shown), figsize=(4.6 * len(shown), 4.2), squeeze=False)
    for name, panel in zip(shown, panels[0], strict=True):
        for method, row in facts["rows"][name].items():
            ours = method.startswith("Cut")
            hollow = not row["exact"]
            color = "tab:red" if ours else "tab:blue"
            panel.scatter(row["seconds"], row["loss"], s=28, edgecolors=color, facecolors="none" if hollow else color)
        panel.set(xscale="log", xlabel="seconds", ylabel="mean batch loss", title=name)
        panel.margins(x=0.25, y=0.1)
    figure.tight_layout()
    figure.canvas.draw()
    for name, panel in zip(shown, panels[0], strict=True):
        _label(panel, facts["rows"][name])
    figure.savefig(path, metadata={"Date": None})


def _label(panel: Any, rows: dict[str, Any]) -> None:
    """Writes each method beside its point, at the first of many places where it covers no point and no other label."""
    renderer = panel.figure.canvas.get_renderer()
    points = [panel.transData.transform((row["seconds"], row["loss"])) for row in rows.values()]
    taken: list[Any] = []
    for (method, row), own in zip(rows.items(), points, strict=True):
        label = panel.annotate(
            method, (row["seconds"], row["loss"]), fontsize=6, xytext=(0, 0), textcoords="offset points"
        )
        for right, up in _PLACES:
            label.set_position((5 if right else -5, up))
            label.set(ha="left" if right else "right", va="center")
            box = label.get_window_extent(renderer).padded(2)
            inside = panel.bbox.x0 <= box.x0 and box.x1 <= panel.bbox.x1
            free = not any(box.contains(*point) for point in points if point is not own)
            if inside and free and not any(box.overlaps(other) for other in taken):
                break
        taken.append(box)
        if abs(up) > 4:
            panel.annotate(
                "",
                (row["seconds"], row["loss"]),
                xytext=(5 if right else -5, up),
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "lw": 0.4, "color": "grey"},
            )
