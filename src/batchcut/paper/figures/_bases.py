"""`fig:sim_theorem_base_N_8`, `_N_4`, `_N_16`: where descent ends, and how fast one batch a step gets there."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from batchcut._progress import Progress, part_of
from batchcut.paper._item import Data, Finding, Settings, Table, Verdict
from batchcut.paper._style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, ink
from batchcut.theory import cross_polytope, one_thread, random_embeddings, simplex_etf

from ._drawing import draw_heat_maps, opposite_first
from ._synthetic import (
    LEARNING_RATE,
    METHODS,
    NORMALIZE,
    OSGD,
    OSGD_TEXT,
    SC,
    SC_AUTHORS,
    Course,
    courses,
    descend_to_rest,
    losses_to_compare,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REACHED = 1e-2
"""A Frobenius distance below this counts as the optimum."""
ALIKE = 0.9
BAND = (0.1, 0.9)
COLUMNS = {"full": "full batch", "all": "all C(N, 2)", "sub": "subset"}
LOOK = {
    "SGD": (ORANGE, "-"),
    OSGD: (BLUE, "-"),
    OSGD_TEXT: (SKY, "--"),
    SC: (GREEN, "-"),
    SC_AUTHORS: (PURPLE, "--"),
    "Cut": (VERMILION, "-."),
}
WORDS = {"each step": "normalised after each step (text)", "in the loss": "normalised in the loss (authors' code)"}


def run(n: int, settings: Settings, progress: Progress) -> Data:
    """For d = 2N and d = N/2: the inner products at the ends, and the distances on the way."""
    seeds, steps, every, most = (2, 40, 4, 2000) if settings.quick else (10, 500, 10, 100_000)
    rows: list[dict[str, Any]] = []
    dimensions = (2 * n, n // 2)
    for place, d in enumerate(dimensions):
        begun, ended = ((place + share) / len(dimensions) for share in (0.2, 1.0))
        ends = _ends(n, d, most, settings.seed, part_of(progress, place / len(dimensions), begun))
        found = courses(
            n,
            d,
            seeds=[settings.seed + offset for offset in range(seeds)],
            steps=steps,
            every=every,
            progress=part_of(progress, begun, ended),
            processes=1 if settings.quick else os.cpu_count() or 1,
        )
        rows.append({"d": d, "ends": ends, "curves": {way: _as_data(methods) for way, methods in found.items()}})
    return {"n": n, "steps": list(range(0, steps + 1, every)), "seeds": seeds, "most_steps": most, "rows": rows}


def _as_data(methods: dict[str, list[Course]]) -> dict[str, Any]:
    return {
        method: {name: [getattr(course, name) for course in runs] for name in ("distances", "closest", "aligned")}
        for method, runs in methods.items()
    }


def _ends(n: int, d: int, most: int, seed: int, progress: Progress) -> dict[str, Any]:
    optimum = simplex_etf(n, d) if n <= d + 1 else cross_polytope(n, d)
    ends: dict[str, Any] = {"optimum": {"matrix": (optimum @ optimum.T).tolist()}}
    losses = losses_to_compare(n)
    for done, (name, loss) in enumerate(losses.items()):
        found = {}
        for normalize in NORMALIZE:
            with one_thread():
                u, v = random_embeddings(n, d, seed=seed)
                found[normalize] = descend_to_rest(loss, u, v, normalize=normalize, most_steps=most)
        text = found["each step"]
        matrix = (text.u @ text.v.T).numpy()
        order = opposite_first(matrix)
        ends[name] = {
            "matrix": np.round(matrix[np.ix_(order, order)], 6).tolist(),
            "distance": {normalize: end.distance for normalize, end in found.items()},
            "steps": {normalize: end.steps for normalize, end in found.items()},
        }
        progress((done + 1) / len(losses))
    return ends


def _shape(data: Data, row: Data) -> str:
    return "the simplex ETF" if data["n"] <= row["d"] + 1 else "the cross-polytope"


def _final(row: Data, normalize: str, method: str) -> float:
    return float(np.mean([curve[-1] for curve in row["curves"][normalize][method]["distances"]]))


def judge(data: Data) -> Verdict:
    """For each d: full batch and all batches arrive, the subset does not; OSGD and SC come nearer than SGD."""
    findings: list[Finding] = []
    for row in data["rows"]:
        findings += _judge_ends(data, row)
        findings += [_judge_method(data, row, method) for method in (OSGD, SC, SC_AUTHORS)]
    return Verdict(findings=tuple(findings))


def _judge_ends(data: Data, row: Data) -> list[Finding]:
    far = {name: max(row["ends"][name]["distance"].values()) for name in ("full", "all")}
    steps = {name: max(row["ends"][name]["steps"].values()) for name in ("full", "all")}
    nearest = min(row["ends"]["sub"]["distance"].values())
    return [
        Finding(
            paper=f"d = {row['d']}: full batch and all C(N, 2) batches reach {_shape(data, row)}",
            here=", ".join(
                f"{COLUMNS[name]} at distance {far[name]:.1e} after {steps[name]:,} steps" for name in ("full", "all")
            )
            + " (the farther of both ways of normalising)",
            agrees=max(far.values()) < REACHED,
            why=f"the descent was still on its way when it was stopped after {data['most_steps']:,} steps"
            if max(steps.values()) >= data["most_steps"]
            else "the descent came to rest elsewhere",
        ),
        Finding(
            paper=f"d = {row['d']}: a subset of the batches does not reach it",
            here=f"a fixed partition ends at distance {nearest:.2f}",
            agrees=nearest >= REACHED,
            why="the subset came to the optimum too",
        ),
    ]


def _judge_method(data: Data, row: Data, method: str) -> Finding:
    finals = {way: (_final(row, way, method), _final(row, way, "SGD")) for way in NORMALIZE}
    return Finding(
        paper=f"d = {row['d']}: after {data['steps'][-1]} steps {method} is nearer to the optimum than SGD",
        here="mean distance "
        + " and ".join(f"{mine:.3f} against {sgd:.3f}, {WORDS[way]}" for way, (mine, sgd) in finals.items()),
        agrees=all(mine < sgd for mine, sgd in finals.values()),
        why=_why_far(data, row, method),
    )


def _why_far(data: Data, row: Data, method: str) -> str:
    """What the runs that stayed away look like at their end."""
    runs = [row["curves"][way][method] for way in NORMALIZE]
    total = data["seeds"] * len(NORMALIZE)
    together = sum(value > ALIKE for run in runs for value in run["closest"])
    apart = sum(value < ALIKE for run in runs for value in run["aligned"])
    reasons = []
    if together:
        reasons.append(
            f"in {together} of {total} runs two samples have run together (uᵢ · vⱼ above {ALIKE:g}), where the "
            "gradient of the batch that holds both vanishes"
        )
    if apart:
        reasons.append(
            f"in {apart} of {total} runs a positive pair has not come together (uᵢ · vᵢ below {ALIKE:g}): the steps of "
            "constant length go round in a circle"
        )
    return "; ".join(reasons) or "SGD happened to come as near"


def draw(data: Data) -> "Figure":
    """One row for each d: four heat maps, and the distances for both ways of normalising."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.5, 5.6))
    panels = figure.subplots(2, 6, width_ratios=(1, 1, 1, 1, 1.7, 1.7))
    for row, axes in zip(data["rows"], panels, strict=True):
        last = row is data["rows"][-1]
        maps = [
            (row["ends"]["optimum"]["matrix"], f"optimum, d = {row['d']}\n{_shape(data, row).removeprefix('the ')}")
        ]
        for name, title in COLUMNS.items():
            end = row["ends"][name]
            maps.append((end["matrix"], f"{title}\ndistance {end['distance']['each step']:.2g}"))
        image = draw_heat_maps(axes[:4], maps, last=last)
        for place, normalize in enumerate(NORMALIZE):
            _draw_curves(axes[4 + place], data, row, normalize, last=last)
    figure.colorbar(image, ax=panels[:, :4], shrink=0.75, aspect=30, pad=0.01, label="uᵢ · vⱼ")
    handles, names = panels[0, 4].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower right", ncols=len(METHODS))
    return figure


def _draw_curves(axes: "Axes", data: Data, row: Data, normalize: str, *, last: bool) -> None:
    for method in METHODS:
        curves = np.array(row["curves"][normalize][method]["distances"])
        low, high = np.quantile(curves, BAND, axis=0)
        color, line = LOOK[method]
        axes.plot(data["steps"], curves.mean(axis=0), line, color=color, label=method)
        axes.fill_between(data["steps"], low, high, color=color, alpha=0.18, lw=0)
    axes.set_yscale("log")
    axes.set_yticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
    axes.minorticks_off()
    lowest = min(min(map(min, runs["distances"])) for way in row["curves"].values() for runs in way.values())
    axes.set_ylim(max(0.05, 0.8 * lowest), None)
    axes.set_title(f"d = {row['d']}: {WORDS[normalize].replace(' (', chr(10) + '(')}", color=ink())
    axes.set_ylabel("distance to the optimum" if normalize == "each step" else "")
    if last:
        axes.set_xlabel("step, one batch of 2 each")


def describe(data: Data) -> str:
    """The picture in words."""
    parts = []
    for row in data["rows"]:
        ends = row["ends"]
        parts.append(
            f"d = {row['d']}: the heat maps of the full batch and of all batches are at distance "
            f"{ends['full']['distance']['each step']:.2g} and {ends['all']['distance']['each step']:.2g} from the "
            "optimum, "
            f"that of the subset at {ends['sub']['distance']['each step']:.2g}; after {data['steps'][-1]} single-batch "
            "steps the mean distances are "
            + ", ".join(f"{method} {_final(row, 'each step', method):.2f}" for method in METHODS)
        )
    return (
        f"N = {data['n']}. Heat maps of inner products and curves of the distance over steps. " + "; ".join(parts) + "."
    )


def caption(data: Data) -> str:
    """How the data were made."""
    return (
        f"N = {data['n']}, B = 2, learning rate {LEARNING_RATE:g}, τ = 1, random unit vectors at the start. Heat maps: "
        "gradient descent, normalised after each step as in the text, on the full batch, on all C(N, 2) batches, "
        "and on a fixed partition, which is the subset of the authors' code; "
        f"at most {data['most_steps']:,} steps; samples in an order that puts opposite ones side by side. "
        f"Curves: one batch a step, mean of {data['seeds']} seeds and the band of eight tenths of them. "
        "OSGD takes the worst of all C(N, 2) batches (k = C(N, B), q = 1, as in the authors' code); "
        "the dashed line the worst of a random partition (k = N/B, q = 1: without replacement, as in the text). "
        "SC plans a partition every N/B steps: “SC, text” clusters w with L = D − A and normalised rows, "
        "“SC, authors' code” exp(w) with the normalised Laplacian. "
        "Distances are Frobenius norms under the best single relabelling of the samples."
    )


def tables(data: Data) -> tuple[Table, ...]:
    """The distances after the last step."""
    rows = []
    for method in METHODS:
        cells = [method]
        for row in data["rows"]:
            for normalize in NORMALIZE:
                finals = [curve[-1] for curve in row["curves"][normalize][method]["distances"]]
                cells.append(f"{np.mean(finals):.3f} ± {np.std(finals):.3f}")
        rows.append(tuple(cells))
    columns = ("method", *(f"d = {row['d']}, {WORDS[way]}" for row in data["rows"] for way in NORMALIZE))
    heading = (
        f"Distance to the optimum after {data['steps'][-1]} steps, mean ± standard deviation of {data['seeds']} seeds"
    )
    return (Table(heading=heading, columns=columns, rows=tuple(rows)),)
