"""`fig:concept`: the optimum of four pairs in space for the full batch, for all pairs, and for some of them."""

from itertools import combinations
from typing import TYPE_CHECKING, Any

import torch

from batchcut._progress import Progress
from batchcut.paper._item import Data, Finding, Settings, Table, Verdict
from batchcut.paper._style import BLUE, GREEN, ORANGE, PURPLE, faint
from batchcut.theory import Objective, all_batches, asymmetry, full_batch, minimize, over_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N, D = 4, 3
SOME = ((0, 1), (2, 3))
SAME = 1e-6
COLORS = (BLUE, ORANGE, GREEN, PURPLE)


def run(settings: Settings, progress: Progress) -> Data:
    """Minimises the three losses."""
    choices: dict[str, tuple[str, Objective, list[tuple[int, ...]]]] = {
        "full": ("full batch, B = 4", full_batch(), [tuple(range(N))]),
        "all": ("all 6 batches of B = 2", over_batches(all_batches(N, 2)), all_batches(N, 2)),
        "some": ("2 of the 6 batches", over_batches(SOME), list(SOME)),
    }
    geometries: dict[str, Any] = {}
    for done, (name, (title, objective, batches)) in enumerate(choices.items()):
        found = minimize(objective, N, D, starts=8 if settings.quick else 32, seed=settings.seed)
        geometries[name] = {
            "title": title,
            "batches": [list(batch) for batch in batches],
            "loss": found.loss,
            "asymmetry": asymmetry(found.u, found.v),
            "u": found.u.tolist(),
            "v": found.v.tolist(),
            "products": (found.u @ found.v.T).tolist(),
        }
        progress((done + 1) / len(choices))
    return geometries


def _off_diagonal(geometry: Data) -> list[float]:
    products = geometry["products"]
    return [products[i][j] for i in range(N) for j in range(N) if i != j]


def judge(data: Data) -> Verdict:
    """Full batch and all batches: the tetrahedron; some batches: products that are not negative."""
    wanted = -1 / (N - 1)
    off = {name: _off_diagonal(geometry) for name, geometry in data.items()}
    full = max(abs(product - wanted) for product in off["full"])
    both = max(abs(x - y) for x, y in zip(off["full"], off["all"], strict=True))
    largest = max(off["some"])
    return Verdict(
        findings=(
            Finding(
                paper="the full batch is best at the regular tetrahedron, u = v",
                here=f"products differ from −1/3 by {full:.1e} at most, u from v by {data['full']['asymmetry']:.1e}",
                agrees=full < SAME and data["full"]["asymmetry"] < SAME**0.5,
                why="the search ended elsewhere",
            ),
            Finding(
                paper="all C(4, 2) = 6 batches have the same optimum",
                here=f"the inner products of the two optima differ by {both:.1e} at most",
                agrees=both < SAME,
                why="the search ended at different configurations",
            ),
            Finding(
                paper="a strict subset does not guarantee that different samples are negatively correlated",
                here=f"the largest inner product of different samples is {largest:.3f}",
                agrees=largest >= 0,
                why="all inner products of different samples came out negative",
            ),
        )
    )


def draw(data: Data) -> "Figure":
    """Three spheres with the four samples: squares for u, circles for v, lines where two share a batch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 3.4))
    for place, geometry in enumerate(data.values()):
        axes: Any = figure.add_subplot(1, 3, place + 1, projection="3d", computed_zorder=False)
        _draw_sphere(axes)
        _draw_samples(axes, geometry)
        low, high = min(_off_diagonal(geometry)), max(_off_diagonal(geometry))
        span = f"all {low:.3f}" if high - low < 1e-3 else f"{low:.2f} to {high:.2f}"
        axes.set_title(f"{geometry['title']}\nuᵢ · vⱼ, i ≠ j: {span}".replace("-", "−"))
    return figure


def _draw_sphere(axes: Any) -> None:
    turn = torch.linspace(0, 2 * torch.pi, 100)
    cosine, sine, zero = turn.cos().tolist(), turn.sin().tolist(), torch.zeros(100).tolist()
    for ring in ((cosine, sine, zero), (cosine, zero, sine), (zero, cosine, sine)):
        axes.plot(*ring, color=faint(), linewidth=0.5, alpha=0.7, zorder=0)
    axes.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
    axes.set_box_aspect((1, 1, 1), zoom=1.5)
    axes.set_axis_off()
    axes.view_init(elev=14, azim=25)


def _draw_samples(axes: Any, geometry: Data) -> None:
    u, v = _turned(torch.tensor(geometry["u"]), torch.tensor(geometry["v"]))
    for batch in geometry["batches"]:
        for i, j in combinations(batch, 2):
            axes.plot(*zip(u[i], u[j], strict=True), color=faint(), linewidth=5, alpha=0.55, zorder=1)
    for sample, color in enumerate(COLORS):
        axes.plot(*zip((0, 0, 0), u[sample], strict=True), color=color, linewidth=1.5, zorder=2)
        axes.plot(*([x] for x in u[sample]), "s", color=color, markersize=16, zorder=3)
        axes.plot(*([x] for x in v[sample]), "o", color="white", markeredgecolor=color, markersize=12, zorder=4)
        axes.text(*v[sample], str(sample + 1), color="#1b1b1b", ha="center", va="center", fontsize=9, zorder=5)


def _turned(u: torch.Tensor, v: torch.Tensor) -> tuple[list[list[float]], list[list[float]]]:
    """Turned or mirrored as a whole, so that sample 1 is at the top, 2 in a fixed plane, 3 on a fixed side of it."""
    # Where samples are opposite, a trace of the next one says which plane to take.
    anchors = torch.stack([u[0], u[1] + 1e-6 * u[2], u[2]]).T
    axes, upper = torch.linalg.qr(anchors)
    axes = axes * upper.diagonal().sign()
    order = axes[:, [1, 2, 0]]
    return (u @ order).tolist(), (v @ order).tolist()


def describe(data: Data) -> str:
    """The picture in words."""
    parts = []
    for geometry in data.values():
        off = _off_diagonal(geometry)
        parts.append(f"{geometry['title']}: inner products of different samples from {min(off):.3f} to {max(off):.3f}")
    return "Three spheres with four samples each, u as squares and v as circles. " + "; ".join(parts) + "."


def caption(data: Data) -> str:
    """How the data were made."""
    named = ", ".join("{" + ", ".join(str(i + 1) for i in batch) + "}" for batch in data["some"]["batches"])
    return (
        f"N = {N}, d = {D}, τ = 1: the lowest points that a search found, u (squares) and v (circles) free. A line "
        f"joins samples that share a batch; at the right the batches are {named}, a partition. How its two parts lie "
        "to each other does not change the loss there, so that it is left to chance."
    )


def tables(_: Data) -> tuple[Table, ...]:
    """None: the picture has all numbers."""
    return ()
