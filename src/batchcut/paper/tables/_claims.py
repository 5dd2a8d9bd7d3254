"""The theory table: every claim of the paper, tried, as `batchcut theory` does."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from batchcut._progress import Progress
from batchcut.paper._item import Data, Finding, Settings, Table, Verdict
from batchcut.paper._style import BLUE, VERMILION, faint
from batchcut.paper.claims import OURS, Check, checks, run_checks
from batchcut.paper.claims import labels as all_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLOW = (
    "thm:standard-full-batch-case1",
    "thm:NcB-reaches-etf",
    "coro:convergence_comparison",
    "thm:lipschtiz-of-loss-grad",
    "thm:osgd_convergence",
    "thm:osgd_convergence_rho",
    "subsec:spectral_clustering",
)
"""Claims that take more than three seconds to try; a quick run leaves them out."""


def labels() -> list[str]:
    """The labels of the paper's claims, without those of our own."""
    return [label for label in all_labels() if label != OURS]


def run(settings: Settings, progress: Progress) -> Data:
    """Tries the claims one by one."""
    chosen = [label for label in labels() if not (settings.quick and label in SLOW)]
    total = sum(len(checks(label)) for label in chosen)
    outcomes: list[dict[str, Any]] = []
    for label in chosen:
        for outcome in run_checks(label):
            outcomes.append(_as_data(outcome))
            progress(len(outcomes) / total)
    return {"checks": outcomes, "left_out": [label for label in labels() if label not in chosen]}


def _as_data(outcome: Check) -> dict[str, Any]:
    return asdict(outcome) | {"margin": outcome.margin, "holds": outcome.holds}


def judge(data: Data) -> Verdict:
    """One finding for all claims that ought to hold, and one for each that is known not to."""
    sound = [check for check in data["checks"] if check["erratum"] is None]
    failed = [check for check in sound if not check["holds"]]
    findings = [
        Finding(
            paper=f"{len(sound)} statements, each as printed or with the correction of its erratum",
            here=f"{len(sound) - len(failed)} hold"
            + (f"; these do not: {'; '.join(check['label'] for check in failed)}" if failed else ""),
            agrees=not failed,
            why="they came out other than expected: see the table",
        )
    ]
    findings += [
        Finding(
            paper=f"{check['label']}: {check['claim']}",
            here=f"measured {check['measured']:.4g}, claimed {check['relation']} {check['bound']:.4g}",
            agrees=check["holds"],
            why=f"the statement is wrong as printed: erratum {check['erratum']} in docs/errata.md",
        )
        for check in data["checks"]
        if check["erratum"] is not None
    ]
    return Verdict(findings=tuple(findings))


def draw(data: Data) -> "Figure":
    """One line for each claim: what was measured, what was claimed, and whether it holds."""
    from matplotlib.figure import Figure

    rows = data["checks"]
    figure = Figure(figsize=(12.5, 0.6 + 0.24 * len(rows)))
    axes = figure.add_subplot()
    axes.set(xlim=(0, 1), ylim=(len(rows) + 0.2, -1.2))
    axes.axis("off")
    for x, name, side in ((0.03, "claim", "left"), (0.88, "measured", "right"), (0.985, "claimed", "right")):
        axes.text(x, -0.8, name, ha=side, va="center", weight="bold")
    for place, check in enumerate(rows):
        color, mark = (BLUE, "o") if check["holds"] else (VERMILION, "X")
        axes.plot(0.01, place, mark, color=color, markersize=7)
        axes.text(0.03, place, check["label"], va="center", fontsize=8)
        axes.text(0.21, place, _shortened(check["claim"]), va="center", fontsize=8)
        if check["erratum"] is not None:
            axes.text(0.8, place, f"erratum {check['erratum']}", ha="right", va="center", fontsize=8)
        axes.text(0.88, place, f"{check['measured']:.4g}", ha="right", va="center", fontsize=8)
        axes.text(0.985, place, f"{check['relation']} {check['bound']:.4g}", ha="right", va="center", fontsize=8)
        axes.axhline(place + 0.5, color=faint(), linewidth=0.3)
    axes.plot([], [], "o", color=BLUE, label="holds")
    axes.plot([], [], "X", color=VERMILION, linestyle="none", label="does not hold as printed")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    return figure


def _shortened(text: str, length: int = 95) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def describe(data: Data) -> str:
    """The picture in words."""
    held = sum(check["holds"] for check in data["checks"])
    return f"A list of {len(data['checks'])} claims of which {held} hold; the table below has the same content."


def caption(data: Data) -> str:
    """How the data were made."""
    left_out = f" Left out of this quick run: {', '.join(data['left_out'])}." if data["left_out"] else ""
    return f"Every claim, tried by `batchcut theory`; the errata are in docs/errata.md.{left_out}"


def tables(data: Data) -> tuple[Table, ...]:
    """All claims."""
    rows = tuple(
        (
            check["label"],
            check["claim"],
            f"{check['measured']:.4g}",
            f"{check['relation']} {check['bound']:.4g}",
            ("holds" if check["holds"] else "fails")
            + ("" if check["erratum"] is None else f" (erratum {check['erratum']})"),
        )
        for check in data["checks"]
    )
    columns = ("label", "claim", "measured", "claimed", "outcome")
    return (Table(heading="The claims", columns=columns, rows=rows),)
