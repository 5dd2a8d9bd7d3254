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

from benchmarks.loops.runs import (
    AT_THE_END,
    Results,
    Row,
    command_line,
    compared,
    config_by,
    digest,
    heads_of_scores,
    loop_seconds,
    measured_run,
    parsed,
    scores_of,
    without_test,
    write_pairs,
)

from batchcut.training import Config

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
        """The settings of `batchcut train`."""
        settings = {
            "data.name": json.dumps(f"pairs:{file}"),
            "batch_size": str(self.batch_size),
            "selection.selector.method": self.method,
            "optimizer.learning_rate": str(self.rate),
            "seed": str(seed),
        }
        return config_by("pairs", settings | AT_THE_END)


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


def summary(runs: Sequence[Row], timed: Sequence[Row]) -> list[Row]:
    """Of each data set, size and method: the rate, top-1 on the test part, its gain by seed, and seconds."""
    lines = []
    for (data, size, method), rate in sorted(chosen_rates(runs).items(), key=lambda item: _order(item[0])):
        own = _decided(runs, data, size, method)
        base = _decided(runs, data, size, SHUFFLED)
        gains = [own[seed] - base[seed] for seed in sorted(own.keys() & base.keys())]
        seconds = [
            row["loop"] for row in timed if (row["data"], row["batch_size"], row["method"]) == (data, size, method)
        ]
        if own:
            place = {"data": data, "batch_size": size, "method": method, "rate": rate}
            lines.append(place | compared(own, gains, seconds))
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


def facts_of(runs: Sequence[Row], timed: Sequence[Row]) -> Row:
    """All that is stored."""
    lines = summary(runs, timed)
    return {"summary": lines, "bars": bars(lines), "runs": runs, "timed": timed}


def run(config: Config) -> Row:
    """Trains once."""
    found = measured_run(config)
    return {"steps": found["steps"], "top1": found["top1"]}


def timed_run(config: Config) -> Row:
    """The seconds of the same."""
    return {"loop": loop_seconds(measured_run(config))}


def add(results: Results, asked: Asked, file: Path, *, time: bool = False) -> None:
    """Makes a run, unless it is there; or takes its time."""
    config = asked.setting.config(file, asked.seed)
    if time:
        results.add({**asked.setting._asdict(), "seed": asked.seed}, timed_run, config, name="timed")
    else:
        key = {**asked.setting._asdict(), "part": asked.part, "seed": asked.seed, "config": digest(config)}
        results.add(key, run, config)


def _line(row: Row) -> str:
    found = f"top-1 {row['top1']:.2%}" if "top1" in row else f"{row['loop']:.2f} s"
    about = f"{row['data']}, {row.get('part', TEST)}, B = {row['batch_size']}, {row['method']}, {row['rate']:g}"
    return f"{about}, seed {row['seed']}: {found}"


def run_set(results: Results, data: str, files: dict[str, Path], seeds: range, options: argparse.Namespace) -> None:
    """Chooses rates, then decides; or takes the time."""
    if not options.time:
        for asked in choosing_runs(data, options.sizes):
            add(results, asked, files[HELD_OUT])
    chosen = chosen_rates(results.runs)
    if missing := [size for size in options.sizes for kind in METHODS if (data, size, kind) not in chosen]:
        sys.exit(f"--time needs rates that were chosen; {options.output} has none of {data}, B = {missing[0]}")
    for seed in seeds:
        for size in options.sizes:
            for method in METHODS:
                asked = Asked(Setting(data, size, method, chosen[data, size, method]), TEST, seed)
                add(results, asked, files[TEST], time=options.time)


def table(lines: Sequence[Row]) -> str:
    """The summary as text."""
    text = [f"{'data':11}{'B':>4}  {'batches':9}{'rate':>9}{heads_of_scores()}"]
    for line in lines:
        about = f"{line['data']:11}{line['batch_size']:4}  {line['method']:9}{line['rate']:9.2g}"
        text.append(f"{about}{scores_of(line)}")
    return "\n".join(text)


def main() -> None:
    """Runs what is missing and prints what came out."""
    parser = command_line(__doc__, seeds=5, first_seed=60)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--time", action="store_true", help="take seconds, on an idle machine, with the chosen rates")
    options, readers, seeds = parsed(parser)
    results = Results(options.output, facts=facts_of, line=_line, names=("runs", "timed"))
    for data, read in readers.items():
        with tempfile.TemporaryDirectory() as folder:
            files = {TEST: Path(folder) / "test.npz", HELD_OUT: Path(folder) / "held-out.npz"}
            split = read()
            write_pairs(split, files[TEST])
            write_pairs(without_test(split), files[HELD_OUT])
            run_set(results, data, files, seeds, options)
    results.store()
    lines = summary(**results.rows)
    print(table(lines))
    for bar in bars(lines):
        sign, verdict = "≥" if bar["at_least"] else "≤", "pass" if bar["passed"] else "FAIL"
        print(
            f"{verdict}  {bar['data']}: {bar['name']}: {100 * bar['value']:+.2f} points {sign} {100 * bar['bound']:g}"
        )


if __name__ == "__main__":
    main()
