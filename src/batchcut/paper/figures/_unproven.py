"""`fig:sim_theorem_unproven`: N = 8 in three and five dimensions, where the paper proves nothing."""

import textwrap
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from batchcut._progress import Progress
from batchcut.paper._item import Data, Finding, Settings, Table, Verdict
from batchcut.theory import (
    all_batches,
    configuration_name,
    full_batch,
    minimize,
    one_thread,
    over_all_batches,
    over_batches,
    random_embeddings,
)

from ._drawing import draw_heat_maps
from ._synthetic import B, descend_to_rest, losses_to_compare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N = 8
DIMENSIONS = (3, 5)
SAME_GRAM = 1e-3
SAME_LOSS = 1e-9
COLUMNS = {"full": "full batch", "all": "all C(8, 2)", "sub": "subset"}


def run(settings: Settings, progress: Progress) -> Data:
    """The lowest points found of the three losses; the paper's descent beside them."""
    starts, steps = (8, 500) if settings.quick else (100, 8000)
    rows = []
    for place, d in enumerate(DIMENSIONS):
        rows.append(_row(d, starts, steps, settings.seed))
        progress((place + 1) / len(DIMENSIONS))
    return {"rows": rows, "starts": starts, "descent_steps": steps}


def _row(d: int, starts: int, steps: int, seed: int) -> dict[str, Any]:
    partition = [batch for batch in all_batches(N, B) if batch[0] % B == 0 and batch[1] == batch[0] + 1]
    full, pairs = full_batch(), over_all_batches(N, B)
    objectives = {"full": full, "all": pairs, "sub": over_batches(partition)}
    with one_thread():
        minima = {
            name: minimize(objective, N, d, starts=starts if name != "sub" else 1, seed=seed)
            for name, objective in objectives.items()
        }
        losses = losses_to_compare(N)
        descents = {}
        for name in ("full", "all"):
            u, v = random_embeddings(N, d, seed=seed)
            end = descend_to_rest(losses[name], u, v, normalize="each step", most_steps=steps, optimum_known=False)
            descents[name] = (end.u @ end.v.T).numpy()
    grams = {name: (found.u @ found.v.T).numpy() for name, found in minima.items()}
    columns: dict[str, Any] = {}
    for name, found in minima.items():
        order, distance = best_relabeling(grams[name], grams["full"])
        columns[name] = {
            "matrix": np.round(grams[name][np.ix_(order, order)], 9).tolist(),
            "distance_to_full": distance,
            "full_loss": float(full(torch.from_numpy(grams[name]))),
            "pairs_loss": float(pairs(torch.from_numpy(grams[name]))),
            "name": configuration_name(found.u) or "no named figure",
            "curvature": found.curvature,
        }
    return {"d": d, "columns": columns, "descent_distance": best_relabeling(descents["all"], descents["full"])[1]}


def best_relabeling(matrix: NDArray[np.float64], wanted: NDArray[np.float64]) -> tuple[list[int], float]:
    """The order p of the samples for which matrix[p, p] is nearest to `wanted`, and the Frobenius distance.

    All n! orders are tried; the square of the distance is a constant less twice a sum of products.
    """
    orders = np.array(list(permutations(range(len(matrix)))))
    overlap = np.zeros(len(orders))
    for i in range(len(matrix)):
        for j in range(len(matrix)):
            overlap += wanted[i, j] * matrix[orders[:, i], orders[:, j]]
    best = orders[overlap.argmax()]
    return best.tolist(), float(np.linalg.norm(matrix[np.ix_(best, best)] - wanted))


def judge(data: Data) -> Verdict:
    """All batches against the full batch, for each d; and the subset."""
    findings = []
    for row in data["rows"]:
        full, pairs, sub = (row["columns"][name] for name in COLUMNS)
        excess = full["pairs_loss"] - pairs["pairs_loss"]
        distance = pairs["distance_to_full"]
        findings += [
            Finding(
                paper=f"d = {row['d']}: all C(8, 2) batches lead to the optimum of the full batch",
                here=(
                    f"full batch: {full['name']}; all batches: {pairs['name']}; under the best relabelling their inner "
                    f"products are at distance {distance:.1e}, and the full batch's optimum is {max(excess, 0):.1e} "
                    "above the lowest mean over all batches"
                ),
                agrees=distance < SAME_GRAM and abs(excess) < SAME_LOSS,
                why=(
                    f"N = {N}, d = {row['d']} lies outside of the theorem, and the two losses are lowest at different "
                    "configurations, although at each other's they are nearly as low; descent shows it too: after "
                    f"{data['descent_steps']:,} steps the inner products are at distance {row['descent_distance']:.2f} "
                    "from each other, which two heat maps with the samples in different orders do not tell"
                ),
            ),
            Finding(
                paper=f"d = {row['d']}: a subset does not",
                here=f"a fixed partition ends at distance {sub['distance_to_full']:.2f}",
                agrees=sub["distance_to_full"] >= SAME_GRAM,
                why="the subset came to the same inner products",
            ),
        ]
    return Verdict(findings=tuple(findings))


def draw(data: Data) -> "Figure":
    """Three heat maps for each d."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 5.9))
    panels = figure.subplots(2, 3)
    for row, axes in zip(data["rows"], panels, strict=True):
        last = row is data["rows"][-1]
        maps = []
        for name, title in COLUMNS.items():
            column = row["columns"][name]
            below = textwrap.fill(column["name"], 20) if name != "sub" else f"distance {column['distance_to_full']:.2f}"
            maps.append((column["matrix"], f"d = {row['d']}, {title}\n{below}"))
        image = draw_heat_maps(axes, maps, last=last)
    figure.colorbar(image, ax=panels, shrink=0.75, aspect=30, label="uᵢ · vⱼ")
    return figure


def describe(data: Data) -> str:
    """The picture in words."""
    parts = [
        f"d = {row['d']}: full batch {row['columns']['full']['name']}, all batches {row['columns']['all']['name']} at "
        f"distance {row['columns']['all']['distance_to_full']:.1e}, subset at distance "
        f"{row['columns']['sub']['distance_to_full']:.2f}"
        for row in data["rows"]
    ]
    return "Heat maps of the inner products of eight samples at the lowest points found. " + "; ".join(parts) + "."


def caption(data: Data) -> str:
    """How the data were made."""
    return (
        f"N = 8, B = 2, τ = 1: the lowest points that {data['starts']} random starts found, polished by Newton's "
        "method, so that it does not matter here where vectors are normalised. Samples are relabelled so that each "
        "matrix is as near as possible to that of the full batch (all 8! orders tried). The subset is a fixed "
        "partition."
    )


def tables(data: Data) -> tuple[Table, ...]:
    """Both losses at all three points."""
    rows = tuple(
        (
            str(row["d"]),
            title,
            row["columns"][name]["name"],
            f"{row['columns'][name]['full_loss']:.8f}",
            f"{row['columns'][name]['pairs_loss']:.8f}",
            f"{row['columns'][name]['distance_to_full']:.2e}",
        )
        for row in data["rows"]
        for name, title in COLUMNS.items()
    )
    columns = ("d", "minimises", "configuration", "full-batch loss", "mean over all pairs", "distance to the first")
    return (Table(heading="The lowest points found", columns=columns, rows=rows),)
