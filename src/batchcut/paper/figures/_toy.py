"""`fig:toy_example`: OSGD, SGD and descent on all batches, on four points of the circle."""

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from batchcut._progress import Progress
from batchcut.losses.paper import two_sided_loss
from batchcut.paper._item import Data, Finding, Settings, Table, Verdict
from batchcut.paper._style import BLUE, GREEN, ORANGE, faint, ink
from batchcut.paper.claims import LIMIT, METHODS, Method, toy_embeddings, toy_steps, toy_trajectory
from batchcut.theory import optimal_loss

from ._drawing import draw_circle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"OSGD": BLUE, "SGD": ORANGE, "all batches": GREEN}
START, MARGIN = 0.1, 0.05
CURVE_RATE, COUNT_RATE = 0.001, 0.01
"""With steps of constant length SGD stays about η/4 above the lowest loss: the curves need the smaller one."""
EVERY = 100
SAME_LOSS = 5e-4
CLOSE_RATIO = 0.02
NEAR = 0.01
"""A method has arrived when its loss is this close to the optimum."""


def run(settings: Settings, progress: Progress) -> Data:
    """The loss over the steps, and the steps to the optimum for several distances ε from the saddle."""
    replicates, steps = (40, 25_000) if settings.quick else (400, 30_000)
    curves: dict[str, Any] = {}
    for method in METHODS:
        runs = replicates if method == "SGD" else 1
        path = toy_trajectory(method, learning_rate=CURVE_RATE, epsilon=START, replicates=runs, seed=settings.seed)
        losses = np.array([_losses(angles) for angles in islice(path, 0, steps + 1, EVERY)])
        low, high = np.quantile(losses, (0.05, 0.95), axis=1)
        curves[method] = {"mean": losses.mean(axis=1).tolist(), "low": low.tolist(), "high": high.tolist()}
    progress(0.2)
    starts = (1e-1, 1e-2, 1e-3) if settings.quick else (1e-1, 1e-2, 1e-3, 1e-4)
    counts = []
    for done, epsilon in enumerate(starts):
        steps_of: dict[str, Any] = {method: _steps(method, epsilon, settings) for method in METHODS}
        counts.append({"epsilon": epsilon} | steps_of)
        progress(0.2 + 0.8 * (done + 1) / len(starts))
    return {
        "learning_rate": {"curves": CURVE_RATE, "counts": COUNT_RATE},
        "epsilon": START,
        "margin": MARGIN,
        "replicates": replicates,
        "steps": list(range(0, steps + 1, EVERY)),
        "curves": curves,
        "optimum": optimal_loss(4, 2),
        "counts": counts,
        "limit": LIMIT,
    }


def _losses(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """The full-batch loss at θ: (runs, 4), as (runs,)."""
    points = torch.from_numpy(np.stack([toy_embeddings(one) for one in angles]))
    losses: NDArray[np.float64] = two_sided_loss(points @ points.mT).numpy()
    return losses


def _steps(method: Method, epsilon: float, settings: Settings) -> int | None:
    replicates = (400 if settings.quick else 2000) if method == "SGD" else 1
    return toy_steps(
        method,
        learning_rate=COUNT_RATE,
        epsilon=epsilon,
        margin=MARGIN,
        replicates=replicates,
        seed=settings.seed,
        most_steps=int(200 / COUNT_RATE),
    )


def _growth_ratio(data: Data) -> float | None:
    """The further steps of OSGD over those of SGD, from the second to the last ε."""
    first, last = data["counts"][1], data["counts"][-1]
    if any(row[method] is None for row in (first, last) for method in ("OSGD", "SGD")):
        return None
    return float((last["OSGD"] - first["OSGD"]) / (last["SGD"] - first["SGD"]))


def _arrival(data: Data, method: str) -> int | None:
    """The first step from which on the mean loss stays near the optimum."""
    near = [mean < data["optimum"] + NEAR for mean in data["curves"][method]["mean"]]
    if not near[-1]:
        return None
    last_away = max((place for place, value in enumerate(near) if not value), default=-1)
    return int(data["steps"][last_away + 1])


def judge(data: Data) -> Verdict:
    """The end, the order, and the ratio of the steps."""
    ends = {method: data["curves"][method]["mean"][-1] for method in METHODS}
    worst = max(abs(end - data["optimum"]) for end in ends.values())
    arrivals = {method: _arrival(data, method) for method in METHODS}
    others = [arrivals[method] for method in ("SGD", "all batches")]
    osgd = arrivals["OSGD"]
    first = osgd is not None and all(other is None or osgd < other for other in others)
    growth = _growth_ratio(data)
    last = data["counts"][-1]
    plain = "not measured" if None in (last["OSGD"], last["SGD"]) else f"{last['OSGD'] / last['SGD']:.3f}"
    return Verdict(
        findings=(
            Finding(
                paper="all three end at the loss 1.253",
                here=", ".join(f"{method} {end:.4f}" for method, end in ends.items()),
                agrees=worst <= SAME_LOSS,
                why="not all runs are at the optimum by the last step",
            ),
            Finding(
                paper="OSGD is the fastest",
                here="steps to within 0.01 of the optimum: "
                + ", ".join(f"{method} {'not reached' if at is None else at}" for method, at in arrivals.items()),
                agrees=first,
                why="another method arrives as early",
            ),
            Finding(
                paper=f"OSGD needs {LIMIT:.4f} of SGD's steps for small η",
                here=(
                    f"{'not measured' if growth is None else f'{growth:.4f}'} of the further steps that a smaller ε "
                    f"costs; {plain} of all steps at ε = {last['epsilon']:g}, which tends to the same limit like "
                    "1/log(1/ε)"
                ),
                agrees=growth is not None and abs(growth - data["limit"]) <= CLOSE_RATIO,
                why="the measured ratio is not near the limit",
            ),
        )
    )


def draw(data: Data) -> "Figure":
    """The points and where they go; the loss over the steps; the ratio of the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 3.3))
    places, losses, ratios = figure.subplots(1, 3, width_ratios=(0.8, 1.4, 1))
    _draw_places(places, data["epsilon"])
    for method in METHODS:
        curve = data["curves"][method]
        line = "--" if method == "all batches" else "-"  # it would hide SGD, whose mean it is
        losses.plot(data["steps"], curve["mean"], line, color=COLORS[method], label=method)
        if method == "SGD":
            losses.fill_between(data["steps"], curve["low"], curve["high"], color=COLORS[method], alpha=0.25, lw=0)
    losses.axhline(data["optimum"], color=faint(), linewidth=0.8, zorder=0)
    losses.text(
        data["steps"][-1], data["optimum"] - 0.004, f"optimum {data['optimum']:.4f}", ha="right", va="top", fontsize=9
    )
    losses.set(xlabel="step", ylabel="full-batch loss", ylim=(data["optimum"] - 0.03, None))
    losses.legend()
    known = [row for row in data["counts"] if None not in (row["OSGD"], row["SGD"])]
    ratios.semilogx([row["epsilon"] for row in known], [row["OSGD"] / row["SGD"] for row in known], "o-", color=ink())
    ratios.axhline(data["limit"], color=faint(), linewidth=0.8, zorder=0)
    ratios.text(known[0]["epsilon"], data["limit"] + 0.003, f"limit {data['limit']:.4f}", va="bottom", fontsize=9)
    ratios.set(xlabel="start ε (smaller to the right)", ylabel="steps of OSGD ÷ steps of SGD", ylim=(0.14, 0.28))
    ratios.invert_xaxis()
    return figure


def _draw_places(axes: "Axes", epsilon: float) -> None:
    draw_circle(axes, reach=1.45)
    start, end = (toy_embeddings(np.full(4, angle)) for angle in (epsilon, math.pi / 4))
    for sample in range(4):
        axes.plot(*start[sample], "o", color=ink(), markersize=6)
        axes.plot(*end[sample], "o", markerfacecolor="none", markeredgecolor=ink(), markersize=9)
        path = np.array([toy_embeddings(np.full(4, angle))[sample] for angle in np.linspace(epsilon, math.pi / 4, 30)])
        axes.plot(*path.T, color=ink(), linewidth=1.0)
        axes.text(1.3 * end[sample, 0], 1.3 * end[sample, 1], f"u{'₁₂₃₄'[sample]}", ha="center", va="center")
    axes.set_title(f"from θ = {epsilon:g} (dots)\nto the optimum π/4 (rings)")


def describe(data: Data) -> str:
    """The picture in words."""
    arrivals = ", ".join(f"{method} after {_arrival(data, method)} steps" for method in METHODS)
    ratios = ", ".join(
        f"{row['OSGD'] / row['SGD']:.3f} at ε = {row['epsilon']:g}"
        for row in data["counts"]
        if None not in (row["OSGD"], row["SGD"])
    )
    return (
        "Left: four points near a line move to the corners of a square. Middle: the full-batch loss falls to "
        f"{data['optimum']:.4f}; within 0.01 of it come {arrivals}. Right: the ratio of OSGD's steps to SGD's is "
        f"{ratios} "
        f"and rises towards {data['limit']:.4f}."
    )


def caption(data: Data) -> str:
    """How the data were made."""
    return (
        f"N = 4, d = 2, B = 2, τ = 1, all angles start at ε; for the curves η = {data['learning_rate']['curves']:g} "
        "and ε = "
        f"{data['epsilon']:g}, for the counts at the right η = {data['learning_rate']['counts']:g}. "
        f"SGD: mean of {data['replicates']} runs and the band of nine tenths of them. The steps at the right are those "
        f"until the mean angle is within {data['margin']:g} of π/4. Angles are the parameters, so that nothing is "
        "normalised here."
    )


def tables(data: Data) -> tuple[Table, ...]:
    """The steps of all methods."""

    def text(value: int | None) -> str:
        return "not reached" if value is None else f"{value:,}"

    rows = []
    for row in data["counts"]:
        known = None not in (row["OSGD"], row["SGD"])
        ratio = f"{row['OSGD'] / row['SGD']:.4f}" if known else ""
        rows.append((f"{row['epsilon']:g}", *(text(row[method]) for method in METHODS), ratio))
    heading = f"Steps until the mean angle is within {data['margin']:g} of π/4 (paper: ratio {data['limit']:.4f})"
    return (Table(heading=heading, columns=("ε", *METHODS, "OSGD ÷ SGD"), rows=tuple(rows)),)
