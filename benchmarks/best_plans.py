"""How far plans are from the best by the effective batch size, and whether better ones by it train better.

`best_plans.py NAME` trains two small towers (see loops/towers.py) on training rows of NAME, an .npz file of pairs or
"functions". From their embeddings it takes small sets, of which the best partition is found by dynamic programming over
subsets, and larger ones in which samples are swapped, from the plan of `Cut` on, as long as a swap raises the effective
size (`gradient_table`, in both roles). Then it trains by shuffled batches, by those of `Cut` and by swapped ones, and
tells how many held-out rows find their partner. With `--output`, figures are stored as JSON after each run.
"""

import argparse
import functools
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops.runs import Row, store
from benchmarks.loops.towers import TAU, Floats, Ints, Planner, Split, load, planned, shuffled, top1, train

from batchcut.selection import GradientTable, gradient_table, kernel

MARGIN = 0.05
LEAST_GAIN = 1e-9
SMALL_BATCH = 4

Doubles = NDArray[np.float64]


def best_partition(table: GradientTable, batch_size: int) -> Ints:
    """The partition that keeps most, by dynamic programming over subsets: for 16 samples or so."""
    count = table.scores.shape[1]
    every = np.array(list(itertools.combinations(range(count), batch_size)))
    worth = table.kept_by_member(every).sum(axis=1)
    masks = (1 << every).sum(axis=1)
    starts = [masks[every[:, 0] == sample] for sample in range(count)]
    worths = [worth[every[:, 0] == sample] for sample in range(count)]

    @functools.cache
    def best(rest: int) -> tuple[float, int]:
        """The most that the samples of a set can keep, and the batch of its first sample."""
        if not rest:
            return 0.0, 0
        first = (rest & -rest).bit_length() - 1
        fits = np.flatnonzero(starts[first] & ~rest == 0)
        return max(
            (float(worths[first][k]) + best(rest ^ int(starts[first][k]))[0], int(starts[first][k])) for k in fits
        )

    batches, rest = [], (1 << count) - 1
    while rest:
        batch = best(rest)[1]
        batches.append([sample for sample in range(count) if batch >> sample & 1])
        rest ^= batch
    return np.array(batches)


def swapped(table: GradientTable, batches: Ints, *, sweeps: int, closed: NDArray[np.bool_] | None = None) -> Ints:
    """Batches (K, B) after swaps of two samples, each the best for one of them, as long as they keep more.

    `closed`: (N, N) pairs that count for nothing.
    """
    masses = np.exp(table.scores - table.scores.max(axis=2, keepdims=True))
    if closed is not None:
        masses[:, closed] = 0
    # Row 0 of all that follows are masses, row 1 masses times what they keep.
    cells = np.stack([masses, masses * table.moved])
    columns = np.ascontiguousarray(cells.swapaxes(2, 3))
    order = np.array(batches).ravel()
    for _ in range(sweeps):
        if not _sweep(cells, columns, order, batches.shape[1]):
            break
    return order.reshape(batches.shape)


def _sweep(cells: Doubles, columns: Doubles, order: Ints, batch_size: int) -> int:
    """Makes for each sample in turn the best swap, if it pays; returns how many were made.

    Places, not samples, are what arrays run along: place p holds the sample order[p], of the batch p // B.
    """
    made = 0
    sums = batch_sums(cells, order, batch_size)
    for sample in range(len(order)):
        place = int(np.flatnonzero(order == sample)[0])
        gains = swap_gains(cells, columns, sums, order, batch_size, place)
        partner = int(gains.argmax())
        if gains[partner] > LEAST_GAIN:
            for k, change in ((place, 1), (partner, -1)):
                sums[:, :, :, k // batch_size] += change * (columns[:, :, order[partner]] - columns[:, :, sample])
            order[[place, partner]] = order[[partner, place]]
            made += 1
    return made


def batch_sums(cells: Doubles, order: Ints, batch_size: int) -> Doubles:
    """(2, 2, N, K) the sums over each batch, for each anchor."""
    return np.stack([cells[:, :, :, row].sum(axis=3) for row in order.reshape(-1, batch_size)], axis=3)


@kernel(fastmath=True)
def swap_gains(cells: Doubles, columns: Doubles, sums: Doubles, order: Ints, batch_size: int, place: int) -> Doubles:
    """(N,) what is kept more if the sample at a place is swapped with that at each other place.

    Args:
        cells: (2, 2, N, N) masses, and masses times what they keep: [which, side, anchor, candidate].
        columns: (2, 2, N, N) the same as [which, side, candidate, anchor].
        sums: (2, 2, N, K) the sums of `cells` over each batch.
        order: (N,) the sample at each place.
        batch_size: B.
        place: that of the sample to be swapped.
    """
    count, first, a = len(order), place // batch_size, order[place]
    gains = np.zeros(count)
    start = first * batch_size
    for k in range(2):
        for at in range(start, start + batch_size):  # those who stay where it was
            i = order[at]
            down, top = sums[0, k, i, first], sums[1, k, i, first]
            if i == a:
                gains -= top / down
                continue
            less_down, less_top = down - cells[0, k, i, a], top - cells[1, k, i, a]
            for p in range(count):
                b = order[p]
                gains[p] += (less_top + cells[1, k, i, b]) / (less_down + cells[0, k, i, b]) - top / down
        for p in range(count):
            b, second = order[p], p // batch_size
            top = sums[1, k, b, first] - cells[1, k, b, a] + cells[1, k, b, b]  # b comes
            gains[p] += top / (sums[0, k, b, first] - cells[0, k, b, a] + cells[0, k, b, b])
            gains[p] -= sums[1, k, b, second] / sums[0, k, b, second]
            top = sums[1, k, a, second] - cells[1, k, a, b] + cells[1, k, a, a]  # a comes
            gains[p] += top / (sums[0, k, a, second] - cells[0, k, a, b] + cells[0, k, a, a])
            begin = second * batch_size
            for at in range(begin, begin + batch_size):  # those who stay where b was
                i = order[at]
                if i != b:
                    top = sums[1, k, i, second] + columns[1, k, a, i] - columns[1, k, b, i]
                    down = sums[0, k, i, second] + columns[0, k, a, i] - columns[0, k, b, i]
                    gains[p] += top / down - sums[1, k, i, second] / sums[0, k, i, second]
    for p in range(start, start + batch_size):
        gains[p] = -np.inf
    return gains


def within_margin(u: Floats, v: Floats) -> NDArray[np.bool_]:
    """(N, N) pairs that `Cut` gives no weight: their similarities come within the margin of their own positives."""
    scores = u @ v.T
    own = np.diagonal(scores)
    closed = scores + scores.T >= own[:, None] + own[None, :] - 2 * MARGIN
    np.fill_diagonal(closed, False)
    return np.asarray(closed)


def by_swaps(*, sweeps: int, margin: bool) -> Planner:
    """Batches of `Cut`, swapped; with the margin, its pairs count for nothing in the search."""

    def plan(u: Floats, v: Floats, batch_size: int, seed: int, epoch: int) -> Ints:
        start = planned(u, v, batch_size, seed, epoch)
        members = np.sort(start.ravel())  # all but a remainder
        places = np.searchsorted(members, start)
        u, v = (side[members] / np.linalg.norm(side[members], axis=1, keepdims=True) for side in (u, v))
        table = gradient_table(u, v, temperature=TAU, roles="both")
        return members[swapped(table, places, sweeps=sweeps, closed=within_margin(u, v) if margin else None)]

    return plan


def small_sets(u: Floats, v: Floats, *, cases: int, samples: int, seed: int) -> list[Row]:
    """For sets of near neighbours: what shuffled batches, those of `Cut` and the best ones keep, and their sizes."""
    rng, rows = np.random.default_rng(seed), []
    for case in range(cases):
        center = rng.integers(len(u))
        near = np.argsort(-(u @ v[center]))[:samples]
        table = gradient_table(u[near], v[near], temperature=TAU, roles="both")
        plans = {"shuffled": shuffled, "Cut": planned}
        found = {name: plan(u[near], v[near], SMALL_BATCH, seed, case) for name, plan in plans.items()}
        found["best"] = best_partition(table, SMALL_BATCH)
        rows.append(_sizes(table, found, case))
    return rows


def larger_set(u: Floats, v: Floats, *, samples: int, batch_size: int, sweeps: int, seed: int) -> Row:
    """The same for some random samples, where the best is what swaps find from the plan of `Cut` on."""
    some = np.random.default_rng(seed).permutation(len(u))[: samples // batch_size * batch_size]
    u, v = u[some], v[some]
    table = gradient_table(u, v, temperature=TAU, roles="both")
    found = {"shuffled": shuffled(u, v, batch_size, seed, 0), "Cut": planned(u, v, batch_size, seed, 0)}
    found["swapped"] = swapped(table, found["Cut"], sweeps=sweeps)
    found["swapped, margin"] = swapped(table, found["Cut"], sweeps=sweeps, closed=within_margin(u, v))
    return _sizes(table, found, seed) | {"samples": len(u), "batch_size": batch_size}


def _sizes(table: GradientTable, found: dict[str, Ints], seed: int) -> Row:
    kept = {name: table.kept(batches) for name, batches in found.items()}
    return {"kept": kept, "size": {name: table.size(share, seed=seed) for name, share in kept.items()}}


def trained(data: Split, plans: dict[str, Planner], *, seed: int, batch_size: int, epochs: int) -> list[Row]:
    """How many held-out rows find their partner after training by plans of each sort."""
    rows = []
    for name, plan in plans.items():
        towers = train(data, plan, None, seed=seed, batch_size=batch_size, epochs=epochs)
        rows.append({"batches": name, "seed": seed, "top1": top1(towers.units(data.held))})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Searches, trains, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help='.npz file with train_u and train_v, or "functions"')
    parser.add_argument("--samples", type=int, default=2048, help="training rows that are used")
    parser.add_argument("--small", type=int, default=16, help="samples of a small set")
    parser.add_argument("--cases", type=int, default=50, help="small sets")
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 2048], help="samples of larger sets")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--warm-up", type=int, default=3, help="planned epochs before plans are compared")
    parser.add_argument("--sweeps", type=int, default=20, help="passes over the samples at most")
    parser.add_argument("--seeds", type=int, nargs="+", default=[75, 76, 77])
    parser.add_argument("--output", type=Path, help="store the figures here as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = load(options.data, most=options.samples)
    sizes = {"batch_size": options.batch_size, "epochs": options.epochs}
    towers = train(data, planned, None, seed=options.seeds[0], **sizes | {"epochs": options.warm_up})
    u, v = (side.numpy() for side in towers.units(data.train))
    facts: Row = {"samples": len(u), "temperature": TAU} | sizes
    facts["small"] = small_sets(u, v, cases=options.cases, samples=options.small, seed=options.seeds[0])
    larger = {"batch_size": options.batch_size, "sweeps": options.sweeps, "seed": options.seeds[0]}
    facts["larger"] = [larger_set(u, v, samples=samples, **larger) for samples in options.sizes]
    print(json.dumps(facts["larger"]), flush=True)
    search = {"sweeps": options.sweeps}
    plans = {"shuffled": shuffled, "Cut": planned, "swapped": by_swaps(margin=False, **search)}
    plans["swapped, margin"] = by_swaps(margin=True, **search)
    facts["runs"] = []
    store(options.output, facts)
    for seed in options.seeds:
        facts["runs"] += trained(data, plans, seed=seed, **sizes)
        store(options.output, facts)


if __name__ == "__main__":
    main()
