"""Tables and picture of docs/images.md, from `training.py` and `images.py`; `tables.py` writes them."""

import math
import statistics
from pathlib import Path
from typing import Any

from benchmarks.loops.runs import share_of_steps, standard_error
from benchmarks.pages.markdown import table_of
from benchmarks.pages.pictures import ENDINGS
from benchmarks.pages.training_report import plot_curves

Facts = dict[str, Any]

EPOCHS = {
    "images, seeds from 40": 10,
    "images, 30 epochs, seeds from 40": 30,
    "images, 60 epochs, seeds from 40": 60,
}
"""The runs that are compared, and how long they are."""

_ALT = "Retrieval of the other view against steps, shuffled and planned"


def epochs_table(facts: Facts) -> str:
    """The gain against the number of epochs, by seeds, and the picture."""
    heads = ("epochs", "seeds", "shuffled", "planned", "gain", "lead half way", "steps to the shuffled result")
    rows = []
    for data, epochs in EPOCHS.items():
        pairs = _pairs(facts["runs"], data)
        if pairs:
            gains = [planned["top1"] - shuffled["top1"] for shuffled, planned in pairs]
            leads = [_half_way(planned) - _half_way(shuffled) for shuffled, planned in pairs]
            top1 = [100 * statistics.fmean(row["top1"] for row in kind) for kind in zip(*pairs, strict=True)]
            shares = [share_of_steps(planned, shuffled) or 1.0 for shuffled, planned in pairs]
            cells = [epochs, len(pairs), *(f"{value:.1f} %" for value in top1), with_error(gains)]
            rows.append([*cells, f"{100 * statistics.fmean(leads):+.1f}", f"{statistics.fmean(shares):.0%}"])
    return "\n".join([table_of(heads, rows), "", *(f"![{_ALT}](img/images{ending})" for ending in ENDINGS)])


PAPER = {
    "Shuffle": ("SGD (shuffled)", "46.9", "12.3"),
    "Ordered": ("OSGD (`Ordered`)", "47.6", "13.9"),
    "Spectral": ("SC (`Spectral`)", "56.7", "47.4"),
    "Cut, no background": ("`Cut`, no background", "", ""),
    "Cut": ("`Cut`, the default", "", ""),
}
"""Methods of the paper: what they are called, and its figures on CIFAR-100 by SimCLR and by SogCLR."""

COMPARED = "images, 30 epochs, seeds from 40"
"""The runs in which they are compared."""


def methods_table(facts: Facts) -> str:
    """The paper's comparison of methods, run again; gains by seed; methods that were not run are left out."""
    heads = [f"{name}{of}" for name in ("SimCLR", "SogCLR") for of in ("", ", gain", " in the paper")]
    rows = []
    for method, (name, *paper) in PAPER.items():
        cells, counts = [], set()
        for objective, printed in zip(("simclr", "sogclr"), paper, strict=True):
            pairs = _pairs(facts["runs"], COMPARED, method, objective)
            counts |= {len(pairs)} if pairs else set()
            top1 = f"{100 * statistics.fmean(row['top1'] for _, row in pairs):.1f}" if pairs else "–"
            gains = [row["top1"] - shuffled["top1"] for shuffled, row in pairs]
            cells += [top1, with_error(gains) if gains and method != "Shuffle" else "", printed]
        if counts:
            rows.append([name, " and ".join(map(str, sorted(counts))), *cells])
    return table_of(["batches", "seeds", *heads], rows)


def _pairs(runs: list[Facts], data: str, method: str = "Cut", objective: str = "simclr") -> list[tuple[Facts, Facts]]:
    """The shuffled and the other run of each seed that has both."""
    found = {(row["method"], row["seed"]): row for row in runs if (row["data"], row["objective"]) == (data, objective)}
    seeds = [seed for name, seed in found if name == method and ("Shuffle", seed) in found]
    return [(found["Shuffle", seed], found[method, seed]) for seed in sorted(seeds)]


def _half_way(row: Facts) -> float:
    """Top-1 at the last evaluation of the first half of a run."""
    return float([top1 for step, top1 in row["curve"] if 2 * step <= row["steps"]][-1])


def with_error(gains: list[float]) -> str:
    """The mean of paired gains in points, with its standard error where there are several."""
    mean = f"{100 * statistics.fmean(gains):+.1f}"
    error = standard_error(gains)
    return mean if error is None else f"{mean} ± {100 * error:.1f}"


def variants_table(facts: Facts) -> str:
    """What each change brings, beside what its plans are like."""
    rows = []
    for row in facts["summary"]:
        error = "" if row["gain_spread"] is None else f" ± {100 * row['gain_spread'] / math.sqrt(row['seeds']):.1f}"
        alone = row["variant"] == row["base"] or row["gain"] is None
        gain = "" if alone else f"{100 * row['gain']:+.1f}{error}"
        agreement = "–" if row["agreement"] is None else f"{row['agreement']:.2f}"
        about = (row["variant"], row["epochs"], "" if alone else row["base"], row["seeds"])
        rows.append((*about, f"{100 * row['top1']:.1f} %", gain, agreement))
    heads = ("batches", "epochs", "compared with", "seeds", "top-1", "gain", "agreement")
    return table_of(heads, rows)


def plot_epochs(facts: Facts, light: Path, dark: Path) -> None:
    """Retrieval against steps, by seeds that have both, for light and for dark pages."""
    titles = {data: f"{epochs} epochs" for data, epochs in EPOCHS.items()}
    runs = [row for data in titles for pair in _pairs(facts["runs"], data) for row in pair]
    plot_curves({"runs": runs}, light, dark, titles)
