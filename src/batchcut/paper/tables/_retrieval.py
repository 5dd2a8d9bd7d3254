"""`tab:performance_comparison_all`, `tab:performance_comparison_corrupted`: retrieval after training."""

import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchcut._progress import Progress, part_of
from batchcut.paper._item import Data, Finding, Settings, Table, Verdict
from batchcut.paper._runs import (
    BATCH_SIZE,
    METHODS,
    OBJECTIVE_NAMES,
    OBJECTIVES,
    every_run,
    images_of,
    scores_of,
    sizes,
    workplace,
)
from batchcut.paper._style import BLUE, GREEN, ORANGE, VERMILION, ink

from ._commands import full_scale_commands, starting_table, starts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from batchcut.training import Config

COLORS = {"SGD": ORANGE, "OSGD": BLUE, "SC": GREEN, "Cut": VERMILION}


def _published(simclr: tuple[float, ...], sogclr: tuple[float, ...]) -> dict[str, dict[str, float]]:
    """Numbers of SGD, OSGD and SC."""
    return {
        "simclr": dict(zip(METHODS[:3], simclr, strict=True)),
        "sogclr": dict(zip(METHODS[:3], sogclr, strict=True)),
    }


PAPER = {
    "clean": {
        "CIFAR-100": _published((46.91, 47.55, 56.67), (12.34, 13.88, 47.42)),
        "Tiny ImageNet": _published((57.88, 59.34, 68.07), (16.70, 20.43, 54.20)),
    },
    "corrupted": {
        "CIFAR-100": _published((31.3, 31.4, 32.5), (23.6, 23.8, 30.0)),
        "Tiny ImageNet": _published((33.2, 33.6, 33.8), (28.6, 29.7, 33.3)),
    },
}
"""Top-1 in per cent, from the paper: ResNet-18, B = 32, 100 epochs on one A100."""

CORRUPTED_IMAGES, CORRUPTED_IMAGES_QUICK = 200, 30


def run_clean(settings: Settings, progress: Progress) -> Data:
    """Top-1 of all runs on the clean test images; then each full-scale command for a few steps."""

    def score(folder: Path, config: "Config") -> float:
        del config
        return scores_of(folder)["top1"]

    with workplace(settings) as work:
        found = _run_sets(settings, work, score, part_of(progress, 0.0, 0.85))
        begun = starts(settings, part_of(progress, 0.85, 1.0))
    return {"task": "clean", "sets": found, "starts": begun}


def run_corrupted(settings: Settings, progress: Progress) -> Data:
    """Top-1 of all runs among the corruptions of the same image."""
    from batchcut.evaluation import CORRUPTIONS, corrupted_retrieval, made_corruptions
    from batchcut.training import trained_model

    count = CORRUPTED_IMAGES_QUICK if settings.quick else CORRUPTED_IMAGES

    def score(folder: Path, config: "Config") -> float:
        images = made_corruptions(images_of(config, "test", count), severity=1, seed=settings.seed)
        return corrupted_retrieval(images, trained_model(folder).views).mean("top1")

    with workplace(settings) as work:
        found = _run_sets(settings, work, score, progress)
    return {"task": "corrupted", "sets": found, "images": count, "corruptions": list(CORRUPTIONS)}


def _run_sets(settings: Settings, work: Path, score: Any, progress: Progress) -> list[dict[str, Any]]:
    chosen = sizes(settings)
    found = []
    for place, size in enumerate(chosen):
        part = part_of(progress, place / len(chosen), (place + 1) / len(chosen))
        found.append({"size": size.as_data(), "top1": every_run(size, settings, work, score, part)})
    return found


def _gain(top1: Data, objective: str, method: str) -> tuple[float, float]:
    """The mean over seeds of a method's lead over SGD, in points, and its standard error."""
    leads = [100 * (mine - sgd) for mine, sgd in zip(top1[objective][method], top1[objective]["SGD"], strict=True)]
    return statistics.fmean(leads), statistics.stdev(leads) / math.sqrt(len(leads))


def judge(data: Data) -> Verdict:
    """The order of the methods, with each objective; and with which of them SC gains more."""
    findings = []
    for found in data["sets"]:
        title, seeds = found["size"]["title"], found["size"]["seeds"]
        cells = [(objective, method) for objective in OBJECTIVES for method in ("OSGD", "SC")]
        findings += [_order(data, found, title, seeds, objective, method) for objective, method in cells]
        simclr, sogclr = (_gain(found["top1"], objective, "SC") for objective in OBJECTIVES)
        findings.append(
            Finding(
                paper="SC gains more over SGD with SogCLR than with SimCLR",
                here=f"{title}: {_points(*sogclr)} with SogCLR, {_points(*simclr)} with SimCLR",
                agrees=sogclr[0] - simclr[0] > math.hypot(sogclr[1], simclr[1]),
                why="at this scale the gains do not differ that way by more than their standard error",
            )
        )
    return Verdict(findings=tuple(findings))


def _order(data: Data, found: Data, title: str, seeds: int, objective: str, method: str) -> Finding:
    mean, error = _gain(found["top1"], objective, method)
    paper = PAPER[data["task"]]
    leads = ", ".join(
        f"{name} {numbers[objective][method] - numbers[objective]['SGD']:+.1f}" for name, numbers in paper.items()
    )
    size = found["size"]
    return Finding(
        paper=f"{OBJECTIVE_NAMES[objective]}: {method} is above SGD (points of top-1: {leads})",
        here=f"{title} at CPU scale: {_points(mean, error)} over {seeds} seeds",
        agrees=mean > error,
        why=(
            f"{'the lead is within its standard error' if mean > -error else 'it came out behind'} after "
            f"{size['epochs']} epochs of a small encoder on {size['train']:,} images; the paper has 100 epochs of a "
            "ResNet-18 on 50,000 or more"
        ),
    )


def _points(mean: float, error: float) -> str:
    return f"{mean:+.1f} ± {error:.1f} points"


def draw(data: Data) -> "Figure":
    """Here at the left, the paper at the right: one dot for each method, with the spread over seeds."""
    from matplotlib.figure import Figure

    here = [(found["size"]["title"] + ", CPU scale", found["top1"]) for found in data["sets"]]
    paper = list(PAPER[data["task"]].items())
    figure = Figure(figsize=(2.7 * (len(here) + len(paper)), 3.6))
    panels = figure.subplots(1, len(here) + len(paper), squeeze=False)[0]
    for axes, (title, top1) in zip(panels, here, strict=False):
        _draw_here(axes, title, top1)
    for axes, (title, numbers) in zip(panels[len(here) :], paper, strict=True):
        _draw_paper(axes, f"{title}, paper", numbers)
    panels[0].set_ylabel("top-1 retrieval, %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(METHODS))
    return figure


def _places(method: str) -> list[float]:
    shift = 0.17 * (METHODS.index(method) - (len(METHODS) - 1) / 2)
    return [place + shift for place in range(len(OBJECTIVES))]


def _draw_here(axes: "Axes", title: str, top1: Data) -> None:
    for method in METHODS:
        runs = [[100 * value for value in top1[objective][method]] for objective in OBJECTIVES]
        means, spreads = [statistics.fmean(run) for run in runs], [statistics.stdev(run) for run in runs]
        axes.errorbar(_places(method), means, spreads, fmt="o", color=COLORS[method], capsize=3, label=method)
    _finish(axes, title)


def _draw_paper(axes: "Axes", title: str, numbers: dict[str, dict[str, float]]) -> None:
    for method in METHODS:
        if method in numbers["simclr"]:
            values = [numbers[objective][method] for objective in OBJECTIVES]
            axes.plot(_places(method), values, "D", color=COLORS[method], markersize=6)
    _finish(axes, title)


def _finish(axes: "Axes", title: str) -> None:
    axes.set_xticks(range(len(OBJECTIVES)), [OBJECTIVE_NAMES[objective] for objective in OBJECTIVES])
    axes.set_xlim(-0.5, len(OBJECTIVES) - 0.5)
    low, high = axes.get_ylim()
    axes.set_ylim(max(0, low - 0.1 * (high - low)), high + 0.1 * (high - low))
    axes.set_title(title, color=ink())


def describe(data: Data) -> str:
    """The picture in words."""
    parts = []
    for found in data["sets"]:
        for objective in OBJECTIVES:
            means = ", ".join(
                f"{method} {100 * statistics.fmean(found['top1'][objective][method]):.1f} %" for method in METHODS
            )
            parts.append(f"{found['size']['title']}, {OBJECTIVE_NAMES[objective]}: {means}")
    return "Top-1 retrieval with its spread over seeds, beside the paper's numbers. " + "; ".join(parts) + "."


def caption(data: Data) -> str:
    """How the data were made."""
    sizes_of = "; ".join(
        f"{size['title']}: {size['train']:,} images, {size['epochs']} epochs, small ResNet of width {size['width']}, "
        f"crops of {size['smallest_crop']:.0%} and more, {size['test']:,} test images, {size['seeds']} seeds"
        for size in (found["size"] for found in data["sets"])
    )
    task = (
        "the other view of an image is looked up among all test images, both ways"
        if data["task"] == "clean"
        else f"the other view of a corrupted image is looked up among {len(data['corruptions'])} corruptions of the "
        f"same image (severity 1, made on the spot, {data['images']} images), both ways"
    )
    missing = (
        ""
        if len(data["sets"]) > 1
        else " The CIFAR-100 images were not given (--cifar), so that only digits were used."
    )
    return (
        f"CPU scale ({sizes_of}), B = {BATCH_SIZE}, AdamW, τ = 0.1; mean and standard deviation over seeds; {task}. "
        "Every method takes the same number of steps. Batches are planned once an epoch from a pass in training mode, "
        "as the authors do: SC by the authors' code (exp(w), normalised Laplacian) in pools of 40 batches; OSGD takes "
        "the worst of every 10 random batches (k/q = 10, as the paper's 1500/150, drawn with replacement so that the "
        "steps are equal); Cut is this library's own. The paper's numbers are from a ResNet-18, 100 epochs on one "
        "A100: "
        f"compare the order, not the values.{missing}"
    )


def tables(data: Data) -> tuple[Table, ...]:
    """All numbers, each with its scale; and the commands of the full scale."""
    rows = []
    for method in METHODS:
        cells = [method]
        for found in data["sets"]:
            for objective in OBJECTIVES:
                values = [100 * value for value in found["top1"][objective][method]]
                cells.append(f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}")
        for numbers in PAPER[data["task"]].values():
            cells += [
                f"{numbers[objective][method]:g}" if method in numbers[objective] else "–" for objective in OBJECTIVES
            ]
        rows.append(tuple(cells))
    columns = ["method"]
    columns += [
        f"{found['size']['title']}, {OBJECTIVE_NAMES[objective]}, CPU scale"
        for found in data["sets"]
        for objective in OBJECTIVES
    ]
    columns += [
        f"{name}, {OBJECTIVE_NAMES[objective]}, paper" for name in PAPER[data["task"]] for objective in OBJECTIVES
    ]
    numbers_table = Table(heading="Top-1 retrieval in per cent", columns=tuple(columns), rows=tuple(rows))
    if data["task"] == "clean":
        return numbers_table, starting_table(data["starts"])
    return numbers_table, full_scale_commands()
