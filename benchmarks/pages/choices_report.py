"""Table and picture of `choices.py` for docs/choosing.md; `tables.py` writes them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.pages.markdown import table_of
from benchmarks.pages.pictures import ENDINGS, both, draw_panels

from batchcut.paper._style import BLUE, faint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Facts = dict[str, Any]

_DIAL = ("shuffled", "pool=2", "pool=10", "pool=40", "default")
_NAMES = {
    "shuffled": "`Shuffle()`",
    "default": "`Cut()`, the default",
    "replan_every=5": "one plan for five epochs, `replan_every=5`",
}
_ALT = "Points of top-1 gained over shuffled batches against how hard the batches are"


def choices_table(facts: Facts) -> str:
    """How hard each setting is, and what it gains; then the picture."""
    rows = []
    for row in facts["summary"]:
        setting = row["setting"]
        name = _NAMES.get(setting, f"`Cut({setting})`")
        gain = "" if setting == "shuffled" else f"{100 * row['gain']:+.1f}"
        rows.append((name, f"{row['hardness']:.1f}", f"{100 * row['top1']:.1f} %", gain, row["seeds"]))
    table = table_of(("setting", "times the shuffled loss", "top-1", "gain", "seeds"), rows)
    shown = [f"![{_ALT}](img/hardness{end})" for end in ENDINGS]
    return "\n".join([table, "", *shown])


def plot_choices(facts: Facts, folder: Path) -> None:
    """Gain against hardness from shuffled batches to the whole set, for light and for dark pages."""
    found = {row["setting"]: row for row in facts["summary"]}
    rows = [found[setting] for setting in _DIAL if setting in found]
    draw_panels(both(folder, "hardness"), (6.2, 3.4), 1, lambda panel: _dial(panel, rows))


def _dial(panel: "Axes", rows: list[Facts]) -> None:
    x, y = [row["hardness"] for row in rows], [100 * row["gain"] for row in rows]
    panel.plot(x, y, color=BLUE, marker="o")
    for row in rows:
        label = "whole set" if row["setting"] == "default" else row["setting"]
        place = (row["hardness"], 100 * row["gain"])
        panel.annotate(label, place, xytext=(6, -12), textcoords="offset points")
    panel.set_xscale("log")
    ticks = [1, 2, 5, 10, 20]
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.set(
        xlabel="mean batch loss, times the shuffled one", ylabel="top-1 gained, points", xlim=(0.9, 30), ylim=(-1, None)
    )
    panel.grid(axis="y", color=faint(), alpha=0.3, linewidth=0.6)
    panel.minorticks_off()
