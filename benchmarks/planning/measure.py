"""One measurement in a process of its own: a method on a set, timed warm, with its peak memory."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.planning.loss import mean_loss_by_sample
from benchmarks.rivals import RIVALS
from benchmarks.rivals._common import Batches, Floats

import batchcut as bc
from batchcut.selection._inputs import Pairs
from batchcut.selection._score import score
from batchcut.selection._weights import Weighting

_ENOUGH = 4096  # samples on which every method runs the same code as on all of them

Method = Callable[[Floats, Floats, int, float, int], Batches]


def methods() -> dict[str, Method]:
    """All methods by name: ours first, then the paper's, then the rivals."""
    return {
        "Shuffle": _selector(lambda tau: bc.Shuffle(temperature=tau)),
        "Cut": _selector(lambda tau: bc.Cut(temperature=tau)),
        "Cut, 1 round": _selector(lambda tau: bc.Cut(temperature=tau, rounds=1)),
        "Cut, 10 rounds": _selector(lambda tau: bc.Cut(temperature=tau, rounds=10)),
        "Cut, one thread": _selector(lambda tau: bc.Cut(temperature=tau, threads=1)),
        "Cut, pool of 40": _selector(lambda tau: bc.Cut(temperature=tau, pool=40)),
        "SC (authors), pool of 40": _selector(lambda tau: bc.Spectral(temperature=tau, variant="authors", pool=40)),
        **RIVALS,
    }


def _selector(make: Callable[[float], bc.selection.Selector]) -> Method:
    def run(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:
        return make(temperature)(u, v, batch_size=batch_size, seed=seed).batches

    return run


def measure(folder: Path, name: str, batch_size: int, temperature: float) -> dict[str, Any]:
    """Loss, seconds, memory, coverage and sizes of one method on the set stored in `folder`."""
    u, v = np.load(folder / "u.npy"), np.load(folder / "v.npy")
    method = methods()[name]
    few = 16 * batch_size * max(1, _ENOUGH // (16 * batch_size))
    method(u[:few], v[:few], batch_size, temperature, 0)  # compile, load libraries
    before = _reset_peak()
    start = time.perf_counter()
    batches = method(u, v, batch_size, temperature, 0)
    seconds = time.perf_counter() - start
    memory = _peak() - before
    pairs = Pairs(u, v)
    outcome = score(pairs, batches, Weighting.of(pairs, batch_size, temperature, None))
    times = np.bincount(batches.ravel(), minlength=len(u))
    return {
        "method": name,
        "loss": float(outcome.losses.mean()),
        "by_sample": mean_loss_by_sample(u, v, batches, temperature),
        "batches": len(batches),
        "times": float(times[times > 0].mean()),
        "weight": float(outcome.weights.sum()),
        "seconds": seconds,
        "memory": memory,
        "embeddings": u.nbytes + v.nbytes,
        "covered": float((times > 0).mean()),
        "exact": bool(times.max() == 1),
    }


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def _reset_peak() -> int:
    """Sets the peak of the resident memory back to what is resident now, and returns that. Linux only."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    result = measure(Path(arguments[0]), arguments[1], int(arguments[2]), float(arguments[3]))
    sys.stdout.write(json.dumps(result) + os.linesep)
