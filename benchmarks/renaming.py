"""How much the mean batch loss of `Cut` depends on the order in which the samples are numbered.

Up to 8,192 samples it must not at all, beyond by 2 % at most. Prints a line for each set, with the largest difference
from the plan of the order that came first, other seeds beside it, and ends with exit code 1 if one exceeds the bar.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.planning.sets import gaussians, heavy_tailed
from rich.console import Console
from rich.table import Table

import batchcut as bc

Floats = npt.NDArray[np.float32]
NAMELESS, ROUNDING, MOST = 8_192, 1e-9, 0.02
TEMPERATURE = 0.1

console = Console(width=120)


def main() -> int:
    """Runs the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=8, help="how many orders, and how many seeds beside them")
    orders = parser.parse_args().orders
    titles = ("set", "B", "mean loss", "other orders, at most", "other seeds, at most", "bar")
    table = Table(*titles, title=f"Difference of the mean loss of Cut(), {orders} orders and seeds")
    passed = True
    for about, u, v, batch_size in _sets():
        losses = [_loss(*_renamed(u, v, order), batch_size, seed=0) for order in range(orders)]
        seeds = [_loss(u, v, batch_size, seed=seed) for seed in range(orders)]
        by_name, by_seed = _largest_difference(losses), _largest_difference(seeds)
        bar = ROUNDING if len(u) <= NAMELESS else MOST
        passed = passed and by_name <= bar
        verdict = f"{'pass' if by_name <= bar else 'FAIL'} ≤ {bar:g}"
        table.add_row(about, str(batch_size), f"{losses[0]:.4f}", f"{by_name:.2%}", f"{by_seed:.2%}", verdict)
    console.print(table)
    return 0 if passed else 1


def _sets() -> Iterator[tuple[str, Floats, Floats, int]]:
    """Samples with many clusters, few, and none, in small and large batches."""
    for count in (8_192, 10_240, 20_480):
        yield f"{count:,}, heavy tail", *heavy_tailed(count), 64
        for batch_size in (4, 32):
            yield f"{count:,}, 40 clusters", *gaussians(count, clusters=40), batch_size
            yield f"{count:,}, no clusters", *gaussians(count, clusters=count), batch_size


def _renamed(u: Floats, v: Floats, order: int) -> tuple[Floats, Floats]:
    """The same pairs in another order; order 0 is as they are."""
    if order == 0:
        return u, v
    names = np.random.default_rng(order).permutation(len(u))
    return u[names], v[names]


def _loss(u: Floats, v: Floats, batch_size: int, *, seed: int) -> float:
    return float(bc.Cut(temperature=TEMPERATURE)(u, v, batch_size=batch_size, seed=seed).losses.mean())


def _largest_difference(losses: list[float]) -> float:
    """From the first, as a share of it."""
    return max(abs(loss / losses[0] - 1) for loss in losses)


if __name__ == "__main__":
    sys.exit(main())
