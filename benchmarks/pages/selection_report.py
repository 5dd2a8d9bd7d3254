"""The tables and the plot of docs/benchmarks.md from the results of `selection.py --json`; `tables.py` writes them."""

from pathlib import Path
from typing import Any

from benchmarks.pages.markdown import table_of

_SHOWN = ("S1", "S2", "S3", "S4")
_PLACES = [(right, up) for far in range(0, 120, 4) for up in ((far, -far) if far else (0,)) for right in (True, False)]
_SC = "SC (authors), pool of 40"
_THREADS = "two threads against one, times faster"


def table(facts: dict[str, Any]) -> str:
    """The measured comparison in Markdown: a line for each method, a column for each set."""
    sets = [name for name in _SHOWN if name in facts["rows"]]
    methods = dict.fromkeys(method for name in sets for method in facts["rows"][name])
    lines = []
    for method in methods:
        rows = [facts["rows"][name].get(method) for name in sets]
        found = [row for row in rows if row is not None]
        name = method if all(row["exact"] for row in found) else f"{method}, {_times_used(found)} batches a sample"
        memory = max(row["memory"] for row in found) / 2**20
        lines.append([name, *(_loss_and_seconds(row, "by_sample") for row in rows), f"{memory:.0f}"])
    bounds = (f"{facts['bounds'][name]:.0%}" if name in facts["bounds"] else "–" for name in sets)
    lines.append(["`Cut`: share of an upper bound on the weight", *bounds, ""])
    return table_of(["method", *sets, "most memory, MiB"], lines)


def times_used(row: dict[str, Any]) -> str:
    """In how many batches a sample is: one, or so many on average of those that are in any."""
    return "1" if row["exact"] else f"{row['times']:.1f}"


def _times_used(rows: list[dict[str, Any]]) -> str:
    """The same over all sets."""
    times = [row["times"] for row in rows]
    return f"{min(times):.0f} to {max(times):.0f}"


def bars_table(facts: dict[str, Any]) -> str:
    """The bars in Markdown; of those against other methods, whose figures are in the table, how many hold."""
    rows = []
    against: dict[str, list[bool]] = {}
    for bar in facts["bars"]:
        if " against " in bar["name"] and not bar["name"].endswith(_THREADS):
            against.setdefault(bar["name"].partition(":")[0], []).append(bar["passed"])
            continue
        must = f"{'≥' if bar['at_least'] else '≤'} {bar['bound']:g}"
        rows.append((bar["name"], f"{bar['value']:.3g}", must, _verdict(bar["passed"])))
    for name, passed in against.items():
        head = f"{name}: `Cut` against others, by loss and seconds"
        rows.append((head, f"{sum(passed)} bars hold", str(len(passed)), _verdict(all(passed))))
    return table_of(("bar", "measured", "must be", ""), rows)


def _verdict(passed: bool) -> str:
    return "pass" if passed else "**fail**"


def summary_table(facts: dict[str, Any]) -> str:
    """A line for each set: the mean batch loss and the seconds of shuffled, spectral and cut batches."""
    lines = []
    for name, rows in facts["rows"].items():
        cells = (_loss_and_seconds(rows.get(method), "loss") for method in ("Shuffle", _SC, "Cut, pool of 40", "Cut"))
        lines.append([f"{name}: {facts['about'][name]}", *cells])
    return table_of(("set", "shuffled", "SC, pools of 40", "`Cut`, pools of 40", "`Cut`"), lines)


def _loss_and_seconds(row: dict[str, Any] | None, loss: str) -> str:
    return "–" if row is None else f"{row[loss]:.3f}\u00a0in\u00a0{row['seconds']:.2f}\u00a0s"


def plot(facts: dict[str, Any], path: Path) -> None:
    """Mean batch loss against seconds, one panel per set, two side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "batchcut"  # the same results give the same file
    from matplotlib import pyplot as plt

    shown = [name for name in _SHOWN if name in facts["rows"]]
    figure, grid = plt.subplots(-(-len(shown) // 2), 2, figsize=(9.2, 3.8 * -(-len(shown) // 2)), squeeze=False)
    panels = dict(zip(shown, grid.flat, strict=False))
    for name, panel in panels.items():
        for method, row in facts["rows"][name].items():
            ours = method.startswith("Cut")
            hollow = not row["exact"]
            color = "tab:red" if ours else "tab:blue"
            panel.scatter(row["seconds"], row["loss"], s=28, edgecolors=color, facecolors="none" if hollow else color)
        panel.set(xscale="log", xlabel="seconds", ylabel="mean batch loss", title=name)
        panel.margins(x=0.25, y=0.1)
    figure.tight_layout()
    figure.canvas.draw()
    for name, panel in panels.items():
        _label(panel, facts["rows"][name])
    figure.savefig(path, metadata={"Date": None})


def _label(panel: Any, rows: dict[str, Any]) -> None:
    """Writes each method beside its point, at the first of many places where it covers no point and no other label."""
    renderer = panel.figure.canvas.get_renderer()
    points = [panel.transData.transform((row["seconds"], row["loss"])) for row in rows.values()]
    taken: list[Any] = []
    for (method, row), own in zip(rows.items(), points, strict=True):
        label = panel.annotate(
            method, (row["seconds"], row["loss"]), fontsize=7, xytext=(0, 0), textcoords="offset points"
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
