"""`fig:ful_mini_loss_compare`: the full-batch loss and the mean over all pairs, as one vector turns."""

import math
from typing import TYPE_CHECKING

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from batchcut._progress import Progress
from batchcut.paper._item import Data, Finding, Settings, Table, Verdict
from batchcut.paper._style import BLUE, ORANGE, ink
from batchcut.theory import Minimum, Objective, all_batches, configuration_name, full_batch, minimize, over_batches

from ._drawing import draw_circle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N, B, D = 10, 2, 2
SAME_ANGLE = 1e-3
SAME_LOSS = 1e-9
NOT_A_MULTIPLE = 1e-3
"""By how much the quotient of two losses must vary, relative to itself, for them to be no multiples."""


def run(settings: Settings, progress: Progress) -> Data:
    """Both losses over the angle of u_1, and the lowest points of both, which a search finds."""
    starts = 32 if settings.quick else 100
    full, pairs = full_batch(), over_batches(all_batches(N, B))
    best_full = minimize(full, N, D, starts=starts, seed=settings.seed)
    progress(0.4)
    best_pairs = minimize(pairs, N, D, starts=starts, seed=settings.seed)
    progress(0.9)
    u, v = _turned_to_zero(best_full)
    angles = torch.linspace(-math.pi, math.pi, 721, dtype=torch.float64)
    return {
        "angles": angles.tolist(),
        "full": [_value(full, u, v, angle) for angle in angles.tolist()],
        "pairs": [_value(pairs, u, v, angle) for angle in angles.tolist()],
        "lowest_at": {"full": _lowest_angle(full, u, v), "pairs": _lowest_angle(pairs, u, v)},
        "minimisers": {
            "full": _minimizer(best_full, full, pairs),
            "pairs": _minimizer(best_pairs, full, pairs),
        },
        "starts": starts,
    }


def _turned_to_zero(found: Minimum) -> tuple[Tensor, Tensor]:
    """The embeddings, turned as a whole so that v_1 lies at the angle 0."""
    cosine, sine = found.v[0].tolist()
    turn = torch.tensor([[cosine, -sine], [sine, cosine]], dtype=torch.float64)
    return found.u @ turn, found.v @ turn


def _value(objective: Objective, u: Tensor, v: Tensor, angle: float) -> float:
    moved = u.clone()
    moved[0] = torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
    return float(objective(moved @ v.T))


def _lowest_angle(objective: Objective, u: Tensor, v: Tensor) -> float:
    """On a grid first, since the loss over the circle may have more than one dip; then between its neighbours."""
    grid = torch.linspace(-math.pi, math.pi, 361, dtype=torch.float64).tolist()
    near = min(grid, key=lambda angle: _value(objective, u, v, angle))
    width = grid[1] - grid[0]
    found = minimize_scalar(
        lambda angle: _value(objective, u, v, angle),
        bounds=(near - width, near + width),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.x)


def _minimizer(found: Minimum, full: Objective, pairs: Objective) -> dict[str, object]:
    products = found.u @ found.v.T
    return {
        "name": configuration_name(found.u) or "no regular figure",
        "points": found.u.tolist(),
        "full": float(full(products)),
        "pairs": float(pairs(products)),
        "reached": found.reached,
    }


def judge(data: Data) -> Verdict:
    """Different values, same angle; and whether that carries over to the minimisers, as the caption says."""
    quotients = [full / pairs for full, pairs in zip(data["full"], data["pairs"], strict=True)]
    low, high = min(quotients), max(quotients)
    apart = abs(data["lowest_at"]["full"] - data["lowest_at"]["pairs"])
    of_full, of_pairs = data["minimisers"]["full"], data["minimisers"]["pairs"]
    excess = of_full["pairs"] - of_pairs["pairs"]
    return Verdict(
        findings=(
            Finding(
                paper="the two losses are neither equal nor multiples of each other",
                here=f"their quotient runs from {low:.3f} to {high:.3f} as u₁ turns",
                agrees=high - low > NOT_A_MULTIPLE * high,
                why="the quotient is the same at all angles",
            ),
            Finding(
                paper="both are lowest at the same angle of u₁",
                here=f"the angles differ by {apart:.1e} rad",
                agrees=apart <= SAME_ANGLE,
                why="the two curves have their lowest points at different angles",
            ),
            Finding(
                paper="this supports the theorem that both problems have the same minimisers",
                here=(
                    f"lowest full-batch loss found: the {of_full['name']}; lowest mean over all pairs found: the "
                    f"{of_pairs['name']}, where that mean is {excess:.1e} lower"
                ),
                agrees=abs(excess) < SAME_LOSS,
                why=(
                    f"N = {N} lies outside of the theorem's cases N ≤ d + 1 and N = 2d, and the figure moves one "
                    "vector only, which cannot lead from one configuration to the other"
                ),
            ),
        )
    )


def draw(data: Data) -> "Figure":
    """The two curves one above the other, each with its own scale; at the right the two lowest configurations."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 4.6))
    grid = figure.add_gridspec(2, 2, width_ratios=(1.7, 1))
    top = figure.add_subplot(grid[0, 0])
    bottom = figure.add_subplot(grid[1, 0], sharex=top)
    titles = {"full": "full batch", "pairs": f"mean over all {math.comb(N, B)} pairs (B = 2)"}
    for axes, name, color in ((top, "full", BLUE), (bottom, "pairs", ORANGE)):
        axes.plot(data["angles"], data[name], color=color)
        lowest = min(data[name])
        axes.plot(data["lowest_at"][name], lowest, "o", color=ink(), markersize=6)
        axes.set_title(f"{titles[name]}, lowest at θ = {data['lowest_at'][name]:.4f}", loc="left")
        axes.set_ylabel("loss")
    top.tick_params(labelbottom=False)
    bottom.set_xlabel("angle θ of u₁")
    bottom.set_xticks([-math.pi, -math.pi / 2, 0, math.pi / 2, math.pi], ["−π", "−π/2", "0", "π/2", "π"])
    for row, name, color in ((0, "full", BLUE), (1, "pairs", ORANGE)):
        _draw_points(figure.add_subplot(grid[row, 1]), data["minimisers"][name], color)
    return figure


def _draw_points(axes: "Axes", found: Data, color: str) -> None:
    draw_circle(axes, reach=1.5)
    places = torch.tensor(found["points"], dtype=torch.float64)
    together = (torch.cdist(places, places) < 1e-3).sum(dim=1).tolist()
    for (x, y), count in zip(places.tolist(), together, strict=True):
        axes.plot(x, y, "o", color=color, markersize=7)
        if count > 1:
            axes.text(1.28 * x, 1.28 * y, f"×{count}", ha="center", va="center", fontsize=9)
    axes.set_title(f"lowest of all: {found['name']}")


def describe(data: Data) -> str:
    """The picture in words."""
    at = data["lowest_at"]
    names = {key: data["minimisers"][key]["name"] for key in ("full", "pairs")}
    return (
        f"Two curves over the angle of u₁ from −π to π. The full-batch loss runs from {min(data['full']):.3f} to "
        f"{max(data['full']):.3f} and is lowest at {at['full']:.4f}; the mean over all pairs runs from "
        f"{min(data['pairs']):.3f} to {max(data['pairs']):.3f} and is lowest at {at['pairs']:.4f}. Beside them the "
        f"lowest configurations found on the circle: {names['full']} and {names['pairs']}."
    )


def caption(data: Data) -> str:
    """How the data were made."""
    return (
        f"N = {N}, B = {B}, d = {D}, τ = 1. All vectors but u₁ stay at the lowest point of the full-batch loss that "
        f"{data['starts']} random starts found. At the right, the lowest points found of both losses, all vectors free."
    )


def tables(data: Data) -> tuple[Table, ...]:
    """Both losses at both configurations."""
    rows = tuple(
        (found["name"], f"{found['full']:.8f}", f"{found['pairs']:.8f}", f"{found['reached']:.0%}")
        for found in (data["minimisers"]["full"], data["minimisers"]["pairs"])
    )
    columns = ("configuration", "full batch", "mean over all pairs", "starts that reached it")
    return (Table(heading="Both losses at the lowest points found", columns=columns, rows=rows),)
