"""Does the effective batch size predict the gain? Retrieval gained over shuffled batches, against the ratio of sizes.

`gain.py NAME ...` trains two small towers (see loops/towers.py) on training rows of each NAME, an .npz file of pairs or
"functions", by batches of several sizes and sorts. In the middle of each run it asks how large random batches would
have to be to keep as much of the full-batch gradient with respect to the towers' weights as the batches of the run; at
the end, how many held-out rows find their partner. With `--output`, figures are stored as JSON
after each run, and runs that are there already are not made again; with `--picture`, they are drawn.
"""

import argparse
import json
import statistics
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.background import EXTRAS, PLANS, Far, pushes, states_of, towers_at, weight_gradient
from benchmarks.loops.runs import Results, Row
from benchmarks.loops.towers import Ints, Split, Towers, load, top1

ROUNDING = 1e-5
SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)

METHODS = {
    "Shuffle": ("shuffled", "nothing"),
    "Spectral": ("Spectral", "nothing"),
    "Cut, no background": ("Cut", "nothing"),
    "Cut": ("Cut", "old"),
}


def effective_size(towers: Towers, inputs: list[Tensor], batches: Ints, far: Far | None, seed: int) -> float:
    """The size of random batches that keep as much of the full-batch gradient, with respect to the weights."""
    units, count = towers.units(inputs), len(inputs[0])
    full = _gradient(towers, inputs, units, torch.arange(count)[None], None)
    rng, sizes = np.random.default_rng(seed), [size for size in SIZES if size < count]
    curve = []
    for size in sizes:
        order = rng.permutation(count)[: count // size * size].reshape(-1, size)
        curve.append(_kept(_gradient(towers, inputs, units, torch.from_numpy(order), None), full, count / order.size))
    found = _gradient(towers, inputs, units, torch.from_numpy(batches), far)
    kept = _kept(found, full, count / batches.size)
    if kept >= 1 - ROUNDING:
        return float(count)
    known = np.maximum.accumulate(np.clip([0.0, *curve, 1.0], 0, 1))
    return float(np.exp(np.interp(kept, known, np.log([1, *sizes, count]))))


def _gradient(towers: Towers, inputs: list[Tensor], units: list[Tensor], batches: Tensor, far: Far | None) -> Tensor:
    one_kind = torch.zeros(len(units[0]), dtype=torch.long)
    parts, _ = pushes(units, batches, one_kind, far)
    return weight_gradient(towers, inputs, [a + b for a, b in zip(*parts, strict=True)])


def _kept(gradient: Tensor, full: Tensor, scale: float) -> float:
    return float(scale * (gradient @ full) / full.square().sum())


def run(
    data: Split, method: str, *, batch_size: int, seed: int, epochs: int, samples: int, store: Path | None = None
) -> Row:
    """Trains once; the effective size is that after half of the epochs, by old rows of the epoch before."""
    plan, extra = METHODS[method]
    how: Row = {"seed": seed, "batch_size": batch_size, "epochs": epochs, "store": store}
    states = [towers_at(data, weights) for weights in states_of(data, plan, extra, **how)]
    before, now = states[epochs // 2 - 2], states[epochs // 2 - 1]
    some = torch.from_numpy(np.random.default_rng(0).permutation(len(data.train[0]))[:samples].copy())
    inputs = [side[some] for side in data.train]
    u, v = (side.numpy() for side in now.units(inputs))
    batches = PLANS[plan](u, v, batch_size, seed, 0)
    far, asked = None, EXTRAS[extra]
    if asked is not None:
        drawn = torch.from_numpy(np.random.default_rng(seed).integers(len(some), size=(len(batches), asked.count)))
        far = Far(drawn, [side[drawn] for side in before.units(inputs)], asked, len(some))
    size = effective_size(now, inputs, batches, far, seed)
    found = top1(states[-1].units(data.held))
    return {"method": method, "batch_size": batch_size, "seed": seed, "size": size, "top1": found}


def points(rows: list[Row]) -> list[Row]:
    """For each set, method and batch size: ratio of sizes and gain over shuffled batches, means over seeds."""
    found = []
    keys = dict.fromkeys((row["data"], row["method"], row["batch_size"]) for row in rows if row["method"] != "Shuffle")
    for data, method, batch_size in keys:
        same = [row for row in rows if (row["data"], row["batch_size"]) == (data, batch_size)]
        mine = [row for row in same if row["method"] == method]
        base = {row["seed"]: row for row in same if row["method"] == "Shuffle"}
        gains = [row["top1"] - base[row["seed"]]["top1"] for row in mine]
        ratio = statistics.geometric_mean(row["size"] / batch_size for row in mine)
        found.append(
            {"data": data, "method": method, "batch_size": batch_size, "ratio": ratio, "gain": statistics.fmean(gains)}
        )
    return found


def draw(rows: list[Row], path: Path) -> None:
    """Gain against the ratio of sizes."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "batchcut"  # the same results give the same file
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(6.4, 4.2))
    colors = {"pairs": "tab:blue", "functions": "tab:green"}
    marks = {"Spectral": "s", "Cut, no background": "o", "Cut": "D"}
    shown = points(rows)
    panel.scatter(1, 0, color="gray", marker="x", label="Shuffle")
    for point in shown:
        panel.scatter(
            point["ratio"], 100 * point["gain"], color=colors[point["data"]], marker=marks[point["method"]], s=36
        )
        panel.annotate(
            point["batch_size"], (point["ratio"], 100 * point["gain"]), (4, 4), textcoords="offset points", fontsize=7
        )
    for label, color in ((label, colors[label]) for label in dict.fromkeys(point["data"] for point in shown)):
        panel.scatter([], [], color=color, label=label)
    for label, mark in ((label, marks[label]) for label in dict.fromkeys(point["method"] for point in shown)):
        panel.scatter([], [], color="gray", marker=mark, label=label)
    panel.set(xscale="log", xlabel="effective batch size, over B (at each point: B)", ylabel="top-1 gained, points")
    panel.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"], minor=False)
    panel.minorticks_off()
    panel.axhline(0, color="gray", linewidth=0.6)
    panel.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Trains what is missing, prints, draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help='.npz files with train_u and train_v, or "functions"')
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 32, 64, 128])
    parser.add_argument("--seeds", type=int, nargs="+", default=[70, 71])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--samples", type=int, default=4096, help="that gradients are compared on")
    parser.add_argument("--states", type=Path, help="folder to keep weights in")
    parser.add_argument("--output", type=Path, help="store the figures here as JSON")
    parser.add_argument("--picture", type=Path, help="draw them here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = Results(options.output, facts=facts_of, line=json.dumps)
    for name in options.data:
        data, label = load(name), "functions" if name == "functions" else "pairs"
        for seed in options.seeds:
            for batch_size in options.batch_sizes:
                for method in options.methods:
                    key = {"data": label, "method": method, "batch_size": batch_size, "seed": seed}
                    store = None if options.states is None else options.states / label / str(batch_size)
                    how = {"batch_size": batch_size, "seed": seed, "epochs": options.epochs, "store": store}
                    results.add(key, partial(run, data, method, samples=options.samples, **how))
    for point in points(results.runs):
        print(json.dumps(point))
    if options.picture is not None:
        draw(results.runs, options.picture)


def facts_of(runs: list[Row]) -> Row:
    """All that is stored."""
    return {"points": points(runs), "runs": runs}


if __name__ == "__main__":
    main()
