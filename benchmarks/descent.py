"""How long descent over all batches takes, with the batches in one call and one by one.

The bar: N = 16, d = 32, all 120 pairs, 20,000 steps in under a minute on two cores.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from batchcut.losses.paper import contrastive_loss, minibatch_loss
from batchcut.theory import descend, random_embeddings

SECONDS = 60.0


def one_by_one(u: Tensor, v: Tensor, batches: list[list[int]]) -> Tensor:
    """The same objective by a Python loop."""
    return torch.stack([contrastive_loss(u[batch], v[batch]) for batch in batches]).mean()


def seconds(objective: Callable[[Tensor, Tensor], Tensor], n: int, d: int, steps: int) -> float:
    """Time of a descent."""
    u, v = random_embeddings(n, d, seed=0)
    start = time.perf_counter()
    descend(objective, u, v, steps=steps)
    return time.perf_counter() - start


def main() -> int:
    """Runs both and prints the ratio; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=16, help="pairs (default: %(default)s)")
    parser.add_argument("--d", type=int, default=32, help="dimensions (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20_000, help="steps (default: %(default)s)")
    options = parser.parse_args()

    batches = [list(pair) for pair in itertools.combinations(range(options.n), 2)]
    together = seconds(partial(minibatch_loss, batches="all", batch_size=2), options.n, options.d, options.steps)
    few = max(1, options.steps // 200)
    apart = seconds(partial(one_by_one, batches=batches), options.n, options.d, few) * options.steps / few

    print(f"N = {options.n}, d = {options.d}, {len(batches)} batches, {options.steps:,} steps")
    print(f"in one call: {together:8.1f} s")
    print(f"one by one:  {apart:8.1f} s (from {few} steps)   ratio {apart / together:.1f}")
    if (options.n, options.d, options.steps) != (16, 32, 20_000):
        return 0
    print(f"{'PASS' if together < SECONDS else 'FAIL'}: under {SECONDS:.0f} s")
    return 0 if together < SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
