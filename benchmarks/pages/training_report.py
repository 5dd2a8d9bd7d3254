"""Tables and pictures of `training.py`, `batch_sizes.py` and `rivals_training.py`; `tables.py` writes them."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.pages.markdown import table_of
from benchmarks.pages.pictures import draw_panels

from batchcut.paper._style import BLUE, VERMILION, faint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Facts = dict[str, Any]

_NO_RIVALS = ("shuffled", "default", "`Cut`, no background")
_OF_IMAGES = "images, seeds from 40"
CURVES = {
    "functions, seeds from 30": "Python functions, B = 32",
    "pairs, seeds from 30": "package descriptions, B = 32",
}
"""The runs that are drawn, and what they are called there."""

_PLANNED = ("planned", VERMILION, "s", "-")
_KINDS = {"shuffle": ("shuffled", BLUE, "o", "--"), "cut": ("default", VERMILION, "s", "-")}


def batch_sizes_table(facts: Facts) -> str:
    """The answer in a sentence, a line for each data set and size, and whether the bars hold."""
    found = {(row["data"], row["batch_size"], row["method"]): row for row in facts["summary"]}
    whole = [key for key in dict.fromkeys(key[:2] for key in found) if all((*key, kind) in found for kind in _KINDS)]
    answers = [
        _range(data, [found[key] for key in found if key[0] == data]) for data in dict.fromkeys(d for d, _ in whole)
    ]
    rows = []
    for data, size in whole:
        shuffled, planned = (found[data, size, method] for method in _KINDS)
        scores = (_score(shuffled), _score(planned), _gain(planned))
        rates, seconds = f"{shuffled['rate']:.2g}, {planned['rate']:.2g}", f"{_seconds(shuffled)}, {_seconds(planned)}"
        rows.append((data, size, *scores, rates, planned["seeds"], seconds))
    table = table_of(("data", "B", "shuffled", "default", "gain", "learning rates", "seeds", "seconds"), rows)
    return "\n".join([*answers, "", table, "", *map(_bar, facts["bars"])])


def _range(data: str, rows: list[Facts]) -> str:
    """From which to which score each kind of batches goes over all sizes."""
    spans = []
    for method, (label, *_) in _KINDS.items():
        top1 = [100 * row["top1"] for row in rows if row["method"] == method]
        spans.append(f"{label} batches from {min(top1):.1f} to {max(top1):.1f} %")
    sizes = sorted({row["batch_size"] for row in rows})
    return f"On {data}, from B = {sizes[0]} to {sizes[-1]}, {' and '.join(spans)}."


def rivals_table(facts: Facts) -> str:
    """The answer in a sentence, and a line for each data set and rival."""
    answers = [_best(data, facts["summary"]) for data in dict.fromkeys(row["data"] for row in facts["summary"])]
    rows = []
    for row in facts["summary"]:
        gain = "" if row["rival"] == "shuffled" else _gain(row)
        rows.append((row["data"], row["rival"], row["seeds"], _score(row), gain, _seconds(row)))
    table = table_of(("data", "batches and loss", "seeds", "top-1", "gain", "seconds"), rows)
    return "\n".join([*filter(None, answers), "", table])


def _best(data: str, rows: list[Facts]) -> str:
    """The gain of the default beside that of the best rival; nothing while one of them is missing."""
    gains = {row["rival"]: row["gain"] for row in rows if row["data"] == data and row["gain"] is not None}
    others = [name for name in gains if name not in _NO_RIVALS]
    if "default" not in gains or not others:
        return ""
    best = max(others, key=gains.__getitem__)
    ours, theirs = (f"{100 * gains[name]:+.1f}" for name in ("default", best))
    return (
        f"On {data} the default gains {ours} points over shuffled batches; of all others, {best} gains most, {theirs}."
    )


def training_bars(training: Facts, rivals: Facts, overhead: Facts) -> str:
    """What should hold of the default, and whether it does."""
    found = {(row["data"], row["method"]): row for row in training["summary"] if row["objective"] != "sogclr"}
    seconds = {(row["data"], row["rival"]): row["seconds"] for row in rivals["summary"]}
    rows = []
    for data, gain, alone, steps in (("pairs", 4.0, 0.7, 0.42), ("functions", 5.0, None, 0.5)):
        default, cut = (found[f"{data}, seeds from 30", method] for method in ("Cut", "Cut, no background"))
        rows.append(_must(f"{data}: the default over shuffled, points", 100 * default["gain"], gain))
        if alone is not None:
            more = 100 * (default["gain"] - cut["gain"])
            rows.append(_must(f"{data}: the default over `Cut` without a background, points", more, alone))
        share = default["share_of_steps"]
        rows.append(_must(f"{data}: steps to the shuffled result, of all", share, steps, at_least=False))
    default, cut = (found[_OF_IMAGES, method] for method in ("Cut", "Cut, no background"))
    rows.append(_must("images: the default over shuffled, points", 100 * default["gain"], 2.5))
    more = 100 * (default["gain"] - cut["gain"])
    rows.append(_must("images: the default over `Cut` without a background, points", more, -0.3))
    loop = seconds["pairs", "default"] / seconds["pairs", "`Cut`, no background"] - 1
    rows.append(_must("pairs: what a background adds to a plain loop, of its time", loop, 0.1, at_least=False))
    step = overhead["background"] / overhead["step"]
    rows.append(_must("images: what it adds to a step, of its time", step, 0.02, at_least=False))
    return table_of(("what", "measured", "must be", ""), rows)


def _must(name: str, value: float, bound: float, *, at_least: bool = True) -> tuple[str, ...]:
    sign, passed = ("≥", value >= bound) if at_least else ("≤", value <= bound)
    points = name.endswith("points")
    measured, wanted = (f"{x:+.2f}" if points else f"{x:.1%}" for x in (value, bound))
    return name, measured, f"{sign} {wanted}", "pass" if passed else "**fail**"


def _score(row: Facts) -> str:
    return f"{100 * row['top1']:.2f}{_spread(row['spread'])} %"


def _gain(row: Facts) -> str:
    return "–" if row["gain"] is None else f"{_points(row['gain'])}{_spread(row['gain_spread'])}"


def _points(share: float) -> str:
    """Rounded first where floats end, so that sums in another order look alike."""
    return f"{round(100 * share, 6):+.2f}"


def _spread(value: float | None) -> str:
    return "" if value is None else f" ± {100 * value:.2f}"


def _seconds(row: Facts) -> str:
    return "–" if row["seconds"] is None else f"{row['seconds']:.1f}"


def _bar(bar: Facts) -> str:
    sign, verdict = "≥" if bar["at_least"] else "≤", "pass" if bar["passed"] else "**fail**"
    measured = f"{_points(bar['value'])} points, must be {sign} {100 * bar['bound']:g}"
    return f"- {bar['data']}: {bar['name']}: {measured}: {verdict}"


def plot_batch_sizes(facts: Facts, light: Path, dark: Path) -> None:
    """Retrieval against batch size, a panel for each data set, for light and for dark pages."""
    sets = dict.fromkeys(row["data"] for row in facts["summary"])
    _plot(_draw_set, {data: [row for row in facts["summary"] if row["data"] == data] for data in sets}, (light, dark))


def plot_curves(facts: Facts, light: Path, dark: Path, curves: Mapping[str, str] = CURVES) -> None:
    """Retrieval against steps of some runs by their title, shuffled and planned, for light and for dark pages."""
    sets = {name: [row for row in facts["runs"] if row["data"] == data] for data, name in curves.items()}
    _plot(_draw_curves, {name: rows for name, rows in sets.items() if rows}, (light, dark))


def _plot(
    draw: Callable[["Axes", str, list[Facts]], None], sets: dict[str, list[Facts]], paths: tuple[Path, Path]
) -> None:
    """A panel for each data set, in a file for light and in one for dark pages."""

    def draw_all(*panels: "Axes") -> None:
        for panel, (data, rows) in zip(panels, sets.items(), strict=True):
            draw(panel, data, rows)

    draw_panels(paths, (4.4 * len(sets), 3.4), len(sets), draw_all)


def _draw_curves(panel: "Axes", data: str, rows: list[Facts]) -> None:
    """Lines in bands of one standard deviation over seeds, and where the planned one is at the end of the other."""
    ends = {}
    for method, (label, color, _, line) in {"Shuffle": _KINDS["shuffle"], "Cut": _PLANNED}.items():
        curves = [row["curve"] for row in rows if row["method"] == method]
        steps = [step for step, _ in curves[0]]
        found = [[100 * value for _, value in curve] for curve in curves]
        means, spreads = ([of(column) for column in zip(*found, strict=True)] for of in (statistics.fmean, _deviation))
        panel.plot(steps, means, color=color, linestyle=line, label=label)
        low, high = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
        panel.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
        ends[method] = steps, means
    (steps, means), final = ends["Cut"], ends["Shuffle"][1][-1]
    panel.axhline(final, color=faint(), linestyle=":", linewidth=0.9)
    reached = next((step for step, mean in zip(steps, means, strict=True) if mean >= final), None)
    if reached is not None:
        panel.plot([reached], [final], "o", color=faint(), markersize=4)
    panel.set(title=data, xlabel="steps", ylabel="top-1, %")
    panel.grid(axis="y", color=faint(), alpha=0.3, linewidth=0.6)
    panel.legend(loc="lower right")


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _draw_set(panel: "Axes", data: str, rows: list[Facts]) -> None:
    """A line for each kind of batches, in a band of one standard deviation over seeds."""
    for method, (label, color, marker, line) in {"shuffle": _KINDS["shuffle"], "cut": _PLANNED}.items():
        own = [row for row in rows if row["method"] == method]
        sizes, top1 = [row["batch_size"] for row in own], [100 * row["top1"] for row in own]
        spreads = [100 * (row["spread"] or 0.0) for row in own]
        panel.plot(sizes, top1, color=color, marker=marker, linestyle=line, label=label)
        low, high = ([t + sign * s for t, s in zip(top1, spreads, strict=True)] for sign in (-1, 1))
        panel.fill_between(sizes, low, high, color=color, alpha=0.2, linewidth=0)
    sizes = sorted({row["batch_size"] for row in rows})
    panel.set_xscale("log", base=2)
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.set(title=data, xlabel="batch size", ylabel="top-1, %")
    panel.grid(axis="y", color=faint(), alpha=0.3, linewidth=0.6)
    panel.minorticks_off()
    panel.legend(loc="best")
