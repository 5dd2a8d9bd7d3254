"""How much the batch size matters, shuffled and planned: retrieval at equal epochs, B = 16 to 512.

`batch_sizes.py --pairs FILE --functions` trains the recipe `pairs` with shuffled batches and with the default (`Cut`
with its background). The learning rate of each size and method is the best of three, ρ √(B / 32) for ρ of 0.00025,
0.0005 and 0.001, by two seeds on a tenth of the training rows that is held out; other seeds decide, on the test part.
With `--output` all is stored as JSON after each run, and runs that are there already are not made again. Seconds want
an idle machine, so they have a pass of their own: `--time`, with the rates that are chosen.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.training_runs import (
    Row,
    compared,
    digest,
    loop_seconds,
    measured_run,
    pair_sets,
    percent,
    store,
    stored_rows,
    without_test,
    write_pairs,
)

from batchcut.data import Split
from batchcut.training import Config, config_of, recipe, with_overrides

SIZES = (16, 32, 64, 128, 256, 512)
SHUFFLED, PLANNED = "shuffle", "cut"
METHODS = (SHUFFLED, PLANNED)
RATES_AT_32 = (2.5e-4, 5e-4, 1e-3)
CHOOSING_SEEDS = (50, 51)
HELD_OUT, TEST = "held out", "test"
_LARGEST_RANGE = 0.01


class Setting(NamedTuple):
    """What a run is of, but for its seed."""

    data: str
    batch_size: int
    method: str
    rate: float

    def config(self, file: Path, seed: int) -> Config:
        """The settings of `batchcut train`; scored and saved at the end alone."""
        overrides = {
            "data.name": json.dumps(f"pairs:{file}"),
            "batch_size": str(self.batch_size),
            "selection.selector.method": self.method,
            "optimizer.learning_rate": str(self.rate),
            "seed": str(seed),
            "evaluation.every_epochs": "0",
            "keeping.checkpoint_epochs": "1000",
            "keeping.embeddings": "0",
        }
        return config_of(with_overrides(recipe("pairs"), overrides), source="recipe pairs")


class Asked(NamedTuple):
    """A run that is asked for."""

    setting: Setting
    part: str
    seed: int


def rates_of(batch_size: int) -> list[float]:
    """The three learning rates that are tried: they grow with the root of the size, as is usual with AdamW."""
    return [float(f"{rate * math.sqrt(batch_size / 32):.2g}") for rate in RATES_AT_32]


def choosing_runs(data: str, sizes: Sequence[int]) -> Iterator[Asked]:
    """The runs by which rates are chosen."""
    for seed in CHOOSING_SEEDS:
        for size in sizes:
            for method in METHODS:
                for rate in rates_of(size):
                    yield Asked(Setting(data, size, method, rate), HELD_OUT, seed)


def chosen_rates(rows: Sequence[Row]) -> dict[tuple[str, int, str], float]:
    """Of each data set, size and method the rate of the highest mean top-1 on what was held out, once all are there."""
    scores: dict[tuple[str, int, str], dict[float, list[float]]] = {}
    for row in rows:
        if row["part"] == HELD_OUT and row["seed"] in CHOOSING_SEEDS:
            by_rate = scores.setdefault((row["data"], row["batch_size"], row["method"]), {})
            by_rate.setdefault(row["rate"], []).append(row["top1"])
    chosen = {}
    for key, by_rate in scores.items():
        tried = rates_of(key[1])
        if all(len(by_rate.get(rate, [])) == len(CHOOSING_SEEDS) for rate in tried):
            chosen[key] = max(tried, key=lambda rate: statistics.fmean(by_rate[rate]))
    return chosen


def summary(rows: Sequence[Row], timed: Sequence[Row]) -> list[Row]:
    """Of each data set, size and method: the rate, top-1 on the test part, its gain by seed, and seconds."""
    lines = []
    for (data, size, method), rate in sorted(chosen_rates(rows).items(), key=lambda item: _order(item[0])):
        runs = _decided(rows, data, size, method)
        base = _decided(rows, data, size, SHUFFLED)
        gains = [runs[seed] - base[seed] for seed in sorted(runs.keys() & base.keys())]
        seconds = [
            row["loop"] for row in timed if (row["data"], row["batch_size"], row["method"]) == (data, size, method)
        ]
        if runs:
            place = {"data": data, "batch_size": size, "method": method, "rate": rate}
            lines.append(place | compared(runs, gains, seconds))
    return lines


def _order(key: tuple[str, int, str]) -> tuple[bool, int, int]:
    return key[0] != "pairs", key[1], METHODS.index(key[2])


def _decided(rows: Sequence[Row], data: str, size: int, method: str) -> dict[int, float]:
    """Top-1 on the test part by seed, with the rate that is chosen."""
    rate = chosen_rates(rows).get((data, size, method))
    wanted = (data, size, method, rate, TEST)
    found = (row for row in rows if tuple(row[k] for k in ("data", "batch_size", "method", "rate", "part")) == wanted)
    return {row["seed"]: row["top1"] for row in found}


def bars(lines: Sequence[Row]) -> list[Row]:
    """What should hold of each data set, and whether it does; all in shares of 1."""
    found = []
    for data in dict.fromkeys(line["data"] for line in lines):
        top1 = {(line["batch_size"], line["method"]): line["top1"] for line in lines if line["data"] == data}
        planned = {size: value for (size, method), value in top1.items() if method == PLANNED}
        shuffled = {size: value for (size, method), value in top1.items() if method == SHUFFLED}
        both = sorted(planned.keys() & shuffled.keys())
        if both:
            least = min(both, key=lambda size: planned[size] - shuffled[size])
            name = f"the default over shuffled where it gains least, B = {least}"
            found.append(_bar(data, name, planned[least] - shuffled[least], 0.0, at_least=True))
            name = "the default's highest over its lowest"
            found.append(
                _bar(data, name, max(planned.values()) - min(planned.values()), _LARGEST_RANGE, at_least=False)
            )
        if 32 in planned and 256 in shuffled:
            name = "the default of 32 over shuffled of 256"
            found.append(_bar(data, name, planned[32] - shuffled[256], 0.0, at_least=True))
    return found


def _bar(data: str, name: str, value: float, bound: float, *, at_least: bool) -> Row:
    passed = value >= bound if at_least else value <= bound
    return {"data": data, "name": name, "value": value, "bound": bound, "at_least": at_least, "passed": passed}


class Results:
    """The rows so far, stored after each."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.runs, self.timed = stored_rows(path), stored_rows(path, "timed")

    def store(self) -> None:
        """Writes all, with what follows from it."""
        lines = summary(self.runs, self.timed)
        store(self.path, {"summary": lines, "bars": bars(lines), "runs": self.runs, "timed": self.timed})

    def add(self, asked: Asked, file: Path) -> None:
        """Makes a run, unless it is there."""
        config = asked.setting.config(file, asked.seed)
        key = {**asked.setting._asdict(), "part": asked.part, "seed": asked.seed, "config": digest(config)}
        if any(all(row[name] == value for name, value in key.items()) for row in self.runs):
            return
        run = measured_run(config)
        self.runs.append({**key, "steps": run["steps"], "top1": run["top1"]})
        print(f"{_name(asked)}: top-1 {run['top1']:.2%}, {loop_seconds(run):.1f} s", flush=True)
        self.store()

    def time(self, asked: Asked, file: Path) -> None:
        """Adds the seconds of a run."""
        loop = loop_seconds(measured_run(asked.setting.config(file, asked.seed)))
        self.timed.append({**asked.setting._asdict(), "seed": asked.seed, "loop": loop})
        print(f"{_name(asked)}: {loop:.2f} s", flush=True)
        self.store()


def _name(asked: Asked) -> str:
    setting = asked.setting
    return (
        f"{setting.data}, {asked.part}, B = {setting.batch_size}, {setting.method}, {setting.rate:g}, seed {asked.seed}"
    )


def run(results: Results, data: str, split: Split, options: argparse.Namespace) -> None:
    """Chooses rates, then decides; or takes the time."""
    with tempfile.TemporaryDirectory() as folder:
        files = {TEST: Path(folder) / "test.npz", HELD_OUT: Path(folder) / "held-out.npz"}
        write_pairs(split, files[TEST])
        write_pairs(without_test(split), files[HELD_OUT])
        if not options.time:
            for asked in choosing_runs(data, options.sizes):
                results.add(asked, files[HELD_OUT])
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        chosen = chosen_rates(results.runs)
        if missing := [size for size in options.sizes for kind in METHODS if (data, size, kind) not in chosen]:
            sys.exit(f"--time needs rates that were chosen; {options.output} has none of {data}, B = {missing[0]}")
        for seed in seeds:
            for size in options.sizes:
                for method in METHODS:
                    asked = Asked(Setting(data, size, method, chosen[data, size, method]), TEST, seed)
                    (results.time if options.time else results.add)(asked, files[TEST])


def table(lines: Sequence[Row]) -> str:
    """The summary as text."""
    names = (("rate", 9), ("seeds", 7), ("top-1", 9), ("spread", 9), ("gain", 9), ("spread", 9), ("seconds", 9))
    text = [f"{'data':11}{'B':>4}  {'batches':9}" + "".join(f"{name:>{width}}" for name, width in names)]
    for line in lines:
        scores = "".join(f"{percent(line[name]):>9}" for name in ("top1", "spread", "gain", "gain_spread"))
        seconds = "-" if line["seconds"] is None else f"{line['seconds']:.1f}"
        about = f"{line['data']:11}{line['batch_size']:4}  {line['method']:9}{line['rate']:9.2g}{line['seeds']:7}"
        text.append(f"{about}{scores}{seconds:>9}")
    return "\n".join(text)


def main() -> None:
    """Runs what is missing and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="file of pairs of features")
    parser.add_argument("--functions", action="store_true", help="the Python functions on this machine")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seeds", type=int, default=5, help="how many decide")
    parser.add_argument("--first-seed", type=int, default=60)
    parser.add_argument("--time", action="store_true", help="take seconds, on an idle machine, with the chosen rates")
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    options = parser.parse_args()
    readers = pair_sets(options.pairs, functions=options.functions)
    if not readers:
        parser.error("give --pairs FILE, --functions or both")
    results = Results(options.output)
    for data, read in readers.items():
        run(results, data, read(), options)
    results.store()
    lines = summary(results.runs, results.timed)
    print(table(lines))
    for bar in bars(lines):
        sign, verdict = "≥" if bar["at_least"] else "≤", "pass" if bar["passed"] else "FAIL"
        print(
            f"{verdict}  {bar['data']}: {bar['name']}: {100 * bar['value']:+.2f} points {sign} {100 * bar['bound']:g}"
        )


if __name__ == "__main__":
    main()
