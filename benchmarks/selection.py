"""Compares `Cut` with the paper's SC and with rivals, on the sets S1 to S5, in one run."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.pages.selection_report import times_used
from benchmarks.planning.bars import Rows, bars, notes
from benchmarks.planning.checks import first_call, share_of_bound, share_of_optimum
from benchmarks.planning.sets import PairSet, make
from benchmarks.rivals import RIVALS

_OURS = ("Shuffle", "Cut", "Cut, 1 round", "Cut, 10 rounds", "Cut, one thread", "Cut, pool of 40")
_SC = "SC (authors), pool of 40"
_METHODS = {
    "S1": (*_OURS, _SC, *RIVALS),
    "S2": (*_OURS, _SC, *RIVALS),
    "S3": (*_OURS, *RIVALS),
    "S4": (*_OURS, _SC, *RIVALS),
    "S5/4": ("Shuffle", "Cut"),
    "S5": ("Shuffle", "Cut"),
}

_SHORT = 5  # seconds
console = Console(width=120)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["S1", "S2", "S3", "S4", "S5/4", "S5"], choices=_METHODS)
    parser.add_argument("--methods", nargs="+", help="only these rows")
    parser.add_argument("--limit", type=float, default=900, help="seconds after which a method is cut off")
    parser.add_argument(
        "--repeats", type=int, default=5, help=f"how often methods of less than {_SHORT} s run; the median counts"
    )
    parser.add_argument(
        "--cifar", type=Path, default=os.environ.get("BATCHCUT_CIFAR"), help="folder cifar-100-python, for S4"
    )
    parser.add_argument("--epochs", type=int, default=3, help="how long the encoder of S4 is trained")
    parser.add_argument("--skip-checks", action="store_true", help="leave out the optimum and the first call")
    parser.add_argument("--json", type=Path, help="where to add the results to those of other runs")
    return parser.parse_args()


def main() -> int:
    """Runs everything that was asked for; returns 1 if a bar is not cleared."""
    options = _options()
    facts = _known(options.json)
    rows: Rows = facts["rows"]
    for name in options.sets:
        if name == "S4" and not options.cifar:
            console.print("S4 skipped: give --cifar or BATCHCUT_CIFAR, the folder of cifar-100-python")
            continue
        pairs = _cifar(Path(options.cifar), options.epochs) if name == "S4" else make(name)
        facts["about"][name] = f"{pairs.about}, B = {pairs.batch_size}, τ = {pairs.temperature:g}"
        wanted = [method for method in _METHODS[name] if not options.methods or method in options.methods]
        rows[name] = {**rows.get(name, {}), **_run(pairs, wanted, options.limit, options.repeats)}
        if "Cut" in rows[name]:
            weight = rows[name]["Cut"]["weight"]
            facts["bounds"][name] = share_of_bound(pairs.u, pairs.v, pairs.batch_size, pairs.temperature, weight)
        _show(pairs, rows[name], facts["bounds"].get(name))
        _write(options.json, facts)
    if not options.skip_checks:
        facts["checks"] = _checks()
    found = bars(rows, facts["checks"])
    for bar in found:
        console.print(bar.line(), style=None if bar.passed else "bold red", highlight=False)
    facts["bars"] = [{**bar._asdict(), "passed": bar.passed} for bar in found]
    facts["notes"] = [note._asdict() for note in notes(rows)]
    for note in notes(rows):
        console.print(note.line(), highlight=False)
    _write(options.json, facts)
    return 0 if all(bar.passed for bar in found) else 1


def _known(path: Path | None) -> dict[str, Any]:
    """The results that are stored already: a run adds to them, so that sets can be run one by one."""
    empty: dict[str, Any] = {"about": {}, "rows": {}, "bounds": {}, "checks": {}, "bars": [], "notes": []}
    stored: dict[str, Any] = json.loads(path.read_text()) if path and path.exists() else empty
    return {**empty, **stored, "machine": _machine()}


def _write(path: Path | None, facts: dict[str, Any]) -> None:
    if path:
        path.write_text(json.dumps(facts, indent=1) + "\n")


def _cifar(folder: Path, epochs: int) -> PairSet:
    from benchmarks.planning.cifar import embed

    u, v = embed(folder, epochs=epochs)
    used = len(u) // 32 * 32
    return PairSet("S4", f"{used:,} CIFAR-100 images, encoder of {epochs} epochs", u[:used], v[:used], 32, 0.1)


def _run(pairs: PairSet, wanted: list[str], limit: float, repeats: int) -> dict[str, dict[str, Any]]:
    """The run of median time of each method, of several where it is short.

    Methods take turns, so that a slow hour of the machine is slow for all.
    """
    runs: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        np.save(Path(scratch) / "u.npy", pairs.u)
        np.save(Path(scratch) / "v.npy", pairs.v)
        again = wanted
        for _ in range(repeats):
            for method in again:
                command = [sys.executable, "-m", "benchmarks.planning.measure", scratch, method]
                run = _one([*command, str(pairs.batch_size), str(pairs.temperature)], limit)
                if "error" in run:
                    console.print(f"{pairs.name}: {method}: {run['error']}", highlight=False)
                    runs.pop(method, None)
                    continue
                console.print(f"{pairs.name}: {method}: {run['loss']:.4f}, {run['seconds']:.2f} s", highlight=False)
                runs.setdefault(method, []).append(run)
            again = [method for method in runs if runs[method][0]["seconds"] < _SHORT]
    return {method: _median(some) for method, some in runs.items()}


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run of median time, with the times of all."""
    seconds = [run["seconds"] for run in runs]
    return {**sorted(runs, key=lambda run: float(run["seconds"]))[len(runs) // 2], "runs": seconds}


def _one(command: list[str], limit: float) -> dict[str, Any]:
    root = Path(__file__).resolve().parents[1]
    path = os.pathsep.join([str(root / "src"), str(root)])
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env={**os.environ, "PYTHONPATH": path},
            timeout=limit,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"cut off after {limit:g} s"}
    if done.returncode:
        return {
            "error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
        }
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def _show(pairs: PairSet, rows: dict[str, dict[str, Any]], bound: float | None) -> None:
    title = f"{pairs.name}: {pairs.about}, B = {pairs.batch_size}, τ = {pairs.temperature:g}"
    titles = ("method", "mean loss", "by sample", "seconds", "peak MiB", "covered", "batches a sample is in")
    table = Table(*titles, title=title)
    for name, row in rows.items():
        cells = (
            f"{row['loss']:.4f}",
            f"{row['by_sample']:.4f}",
            f"{row['seconds']:.2f}",
            f"{row['memory'] / 2**20:.0f}",
            f"{row['covered']:.1%}",
            times_used(row),
        )
        table.add_row(name, *cells)
    console.print(table)
    if bound is not None:
        console.print(f"{pairs.name}: Cut reaches {bound:.1%} of the upper bound on the weight", highlight=False)


def _checks() -> dict[str, float]:
    shares = share_of_optimum()
    cold, warm = first_call()
    return {
        "optimum cases": float((shares >= 0.99).mean() * 100),
        "optimum worst": float(shares.min()),
        "first call cold": cold,
        "first call warm": warm,
    }


def _machine() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main())
