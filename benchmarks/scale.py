"""Plans of sets in files: seconds, memory and loss, against planning in one piece.

The sets are those of S5 (`planning/sets.py`), in float16, in `.npy` files, with batches of 256. Each figure comes from
a process of its own, in which RLIMIT_DATA leaves the limit in GiB for all memory that is not the page cache, the
interpreter and its libraries included: a plan that needs more fails. What is compiled is compiled before.

The bars: 10,000,000 pairs in at most 12 minutes, on two cores, within 3 GiB; seconds per pair at the largest size at
most 1.3 times those at the smallest; mean loss in cells at least 0.98 of that in one piece, at the smallest size.

    python benchmarks/scale.py                                  all of it: about an hour, and 15 GB of disk
    python benchmarks/scale.py --rows 50000 100000 --folder F   a small one
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

GIB = 2**30
DIM, BATCH_SIZE, TEMPERATURE = 128, 256, 0.05
ROWS = (1_000_000, 2_000_000, 4_000_000, 10_000_000)
MOST_SECONDS, MOST_GROWTH, LEAST_LOSS = {10_000_000: 720.0}, 1.3, 0.98
WARM_ROWS = 70_000  # so many that all steps of the search are taken


def main() -> int:
    """Runs the benchmark; returns the exit code."""
    options = _options()
    if options.task is not None:
        print(json.dumps(TASKS[options.task](Path(options.folder), options.rows[0], options.limit)))
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        found: dict[str, Any] = {"cells": [], "limit_gib": options.limit, "processors": os.cpu_count()}
        for rows in sorted(options.rows):
            _write_set(folder, rows)
            found["cells"].append(_in_new_process("cells", folder, rows, options.limit))
            print(_line(found["cells"][-1]), flush=True)
            if rows == min(options.rows):
                found["whole"] = _in_new_process("whole", folder, rows, 0)
                found["workers"] = [_in_new_process(task, folder, rows, 0) for task in ("one_worker", "two_workers")]
                print(_comparison(found), flush=True)
            for side in "uv":
                (folder / f"{side}.npy").unlink()
    if options.write is not None:
        options.write.write_text(json.dumps(found, indent=2) + "\n")
    return _judge(found)


def _line(result: dict[str, Any]) -> str:
    per_million = result["seconds"] / result["rows"] * 1e6
    return (
        f"{result['rows']:>11,} pairs, {result['cells']} cells: {result['seconds']:.1f} s ({per_million:.1f} s for a "
        f"million), {result['peak'] / GIB:.2f} GiB, {result['files'] / GIB:.2f} GiB of files, "
        f"mean loss {result['loss']:.4f}"
    )


def _comparison(found: dict[str, Any]) -> str:
    cells, whole, (one, two) = found["cells"][0], found["whole"], found["workers"]
    return (
        f"in one piece: {whole['seconds']:.1f} s, {whole['peak'] / GIB:.2f} GiB, mean loss {whole['loss']:.4f}; "
        f"in cells {cells['loss'] / whole['loss']:.3f} of the loss, "
        f"{cells['seconds'] / whole['seconds']:.2f} of the time\n"
        f"one worker of one thread: {one['seconds']:.1f} s; two: {two['seconds']:.1f} s, "
        f"{one['seconds'] / two['seconds']:.2f} times as fast; {two['moved'] / GIB:.2f} GiB of parts"
    )


def _judge(found: dict[str, Any]) -> int:
    """Prints the bars that could be measured; 1 if one is missed."""
    cells = found["cells"]
    pace = [result["seconds"] / result["rows"] for result in cells]
    bars = [("mean loss in cells over that in one piece", cells[0]["loss"] / found["whole"]["loss"], LEAST_LOSS, True)]
    if len(cells) > 1:
        bars.append(("seconds per pair, largest over smallest", pace[-1] / pace[0], MOST_GROWTH, False))
    bars += [
        (f"seconds for {result['rows']:,}", result["seconds"], MOST_SECONDS[result["rows"]], False)
        for result in cells
        if result["rows"] in MOST_SECONDS
    ]
    missed = 0
    for name, value, bar, at_least in bars:
        met = value >= bar if at_least else value <= bar
        missed += not met
        print(f"{'met   ' if met else 'MISSED'} {name}: {value:.3f}, {'at least' if at_least else 'at most'} {bar:g}")
    return int(missed > 0)


def _write_set(folder: Path, rows: int) -> None:
    from benchmarks.planning.sets import heavy_tailed_blocks

    sides = [
        np.lib.format.open_memmap(folder / f"{side}.npy", mode="w+", dtype=np.float16, shape=(rows, DIM))
        for side in "uv"
    ]
    start = 0
    for block in heavy_tailed_blocks(rows, dim=DIM):
        for mapped, values in zip(sides, block, strict=True):
            mapped[start : start + len(values)] = values
        start += len(block[0])


def _in_new_process(task: str, folder: Path, rows: int, limit: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--task", task, "--folder", str(folder), "--rows", str(rows)]
    result = subprocess.run([*command, "--limit", str(limit)], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def cells(folder: Path, rows: int, limit: float) -> dict[str, Any]:
    """Planned in cells within the limit, by all threads."""
    return _in_cells(folder, rows, limit, n_jobs=None, threads=None)


def one_worker(folder: Path, rows: int, limit: float) -> dict[str, Any]:
    """By one process with one thread."""
    return _in_cells(folder, rows, limit, n_jobs=1, threads=1)


def two_workers(folder: Path, rows: int, limit: float) -> dict[str, Any]:
    """By two processes with one thread each."""
    return _in_cells(folder, rows, limit, n_jobs=2, threads=1)


def _in_cells(folder: Path, rows: int, limit: float, *, n_jobs: int | None, threads: int | None) -> dict[str, Any]:
    from batchcut.scale import open_pair_files, plan_in_cells
    from batchcut.selection import Cut

    selector = Cut(temperature=TEMPERATURE, threads=threads)
    _warm_up(selector)
    _limit_data(limit)
    parts = folder / "parts"
    pairs = open_pair_files(folder / "u.npy", folder / "v.npy")
    moved = 0

    def watch(_: float) -> None:
        nonlocal moved
        moved = max(moved, sum(path.stat().st_size for path in parts.rglob("*.npy")))

    started = time.perf_counter()
    with _Peak() as peak:
        plan = plan_in_cells(
            pairs, parts=parts, batch_size=BATCH_SIZE, selector=selector, n_jobs=n_jobs, progress=watch
        )
    seconds = time.perf_counter() - started
    shutil.rmtree(parts)
    assert len(plan) == rows // BATCH_SIZE
    files = sum((folder / f"{side}.npy").stat().st_size for side in "uv")
    facts = {"rows": rows, "seconds": seconds, "peak": peak.bytes, "files": files, "moved": moved}
    return {**facts, "loss": plan.mean_loss, "cells": plan.settings["cells"]}


def whole(folder: Path, rows: int, limit: float) -> dict[str, Any]:
    """Planned in memory, in one piece."""
    from batchcut.selection import Cut

    selector = Cut(temperature=TEMPERATURE)
    _warm_up(selector)
    _limit_data(limit)
    started = time.perf_counter()
    with _Peak() as peak:
        u, v = (np.load(folder / f"{side}.npy", mmap_mode="r") for side in "uv")
        plan = selector(u, v, batch_size=BATCH_SIZE)
    return {"rows": rows, "seconds": time.perf_counter() - started, "peak": peak.bytes, "loss": plan.mean_loss}


TASKS = {"cells": cells, "one_worker": one_worker, "two_workers": two_workers, "whole": whole}


def _warm_up(selector: Any) -> None:
    u, v = np.random.default_rng(0).standard_normal((2, WARM_ROWS, 16)).astype(np.float32)
    selector(u, v, batch_size=BATCH_SIZE)


def _limit_data(gib: float) -> None:
    """Of all private memory that can be written, the interpreter's included; files that are mapped do not count."""
    import resource

    if gib:
        resource.setrlimit(resource.RLIMIT_DATA, (int(gib * GIB), -1))


class _Peak:
    """The most private memory that this process had at a time, looked at every few hundredths of a second."""

    def __enter__(self) -> "_Peak":
        import threading

        self.bytes, self._done = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            status = Path("/proc/self/status").read_text()
            found = re.search(r"RssAnon:\s+(\d+)", status)
            self.bytes = max(self.bytes, 1024 * int(found.group(1)) if found else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="sizes of the sets; the smallest is compared")
    parser.add_argument("--limit", type=float, default=3.0, help="GiB of memory that is not the page cache")
    parser.add_argument("--folder", default=None, help="where sets and parts are written; a temporary one if left out")
    parser.add_argument("--write", type=Path, default=None, help="a file for the figures, in JSON")
    parser.add_argument("--task", choices=TASKS, default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.exit(main())
