"""Ways to choose batches, at equal steps: retrieval, steps until Shuffle's final accuracy, and the time they add.

`training.py --cifar ROOT` trains on images (ROOT holds `cifar-100-python`), `--pairs FILE` on pairs of features,
`--functions` on the functions of the installed libraries and what their documentation says of them. Prints a
table with the mean and the spread over seeds. "time" is what recording, planning and sampling took within a run, beside
the rest of its loop; "slower" is how much longer the loop took than the shuffled one of the same seed. With `--output`,
all figures are stored as JSON after each run, and runs that are there already are not made again.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops.runs import (
    Results,
    Row,
    config_by,
    digest,
    loop_seconds,
    measured_run,
    percent,
    share_of_steps,
    spread,
)

from batchcut.training import Config

SELECTOR = "selection.selector."
METHODS: dict[str, dict[str, str]] = {
    "Shuffle": {"method": "shuffle"},
    "Ordered": {"method": "ordered", "k": "10", "replacement": "true"},
    "Spectral": {"method": "spectral", "pool": "40"},
    "Cut, no background": {"method": "cut", "selection.background": "false"},
    "Cut": {"method": "cut"},
}
USUAL = ["Shuffle", "Spectral", "Cut, no background", "Cut"]


def main() -> None:
    """Runs every combination that was asked for."""
    options = _options()
    asked = [
        (_config(options, data, objective, method, seed), _label(options, data), objective, method)
        for data, objective in _sets(options)
        for seed in range(options.first_seed, options.first_seed + options.seeds)
        for method in options.methods
    ]
    results = Results(options.output, facts=_facts, line=_line)
    runs = [({"config": digest(run[0])}, _measure, (*run, options.jobs)) for run in asked]
    results.add_all(runs, jobs=options.jobs)
    results.store()
    print(_table(_summary(results.runs)))


def _facts(runs: Sequence[Row]) -> Row:
    return {"summary": _summary(runs), "runs": runs}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cifar", type=Path, help="folder that holds cifar-100-python")
    parser.add_argument("--pairs", type=Path, help="file of pairs of features")
    parser.add_argument("--functions", action="store_true", help="the Python functions on this machine")
    parser.add_argument("--objectives", nargs="+", default=["simclr", "sogclr"], help="for images")
    parser.add_argument("--methods", nargs="+", default=USUAL, choices=METHODS)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="rows of other seeds than 0 and up are kept apart")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side; the time added is not measured then")
    parser.add_argument("--epochs", type=int, help="instead of 10 for images and 6 for pairs")
    parser.add_argument("--train", type=int, help="use so many training samples")
    parser.add_argument("--width", type=int, help="of the small ResNet, instead of 16")
    parser.add_argument("--as-trained", action="store_true", help="leave the statistics of batch norm as they are")
    parser.add_argument(
        "--evaluate-every", type=int, default=160, help="steps between two evaluations; 0: epochs decide"
    )
    parser.add_argument("--evaluate-epochs", type=int, help="epochs between two evaluations, instead of 1")
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    options = parser.parse_args()
    if not (options.cifar or options.pairs or options.functions):
        parser.error("give --cifar ROOT, --pairs FILE, --functions or several")
    return options


def _sets(options: argparse.Namespace) -> list[tuple[str, str]]:
    images = [("images", objective) for objective in options.objectives] if options.cifar else []
    pairs = [("pairs", "infonce")] if options.pairs else []
    return images + pairs + ([("functions", "infonce")] if options.functions else [])


def _label(options: argparse.Namespace, data: str) -> str:
    seeds = "" if options.train is None else f", {options.train:,} samples"
    seeds += "" if options.epochs is None else f", {options.epochs} epochs"
    seeds += f", seeds from {options.first_seed}" if options.first_seed else ""
    if data != "images":
        return data + seeds
    width = "" if options.width is None else f", width {options.width}"
    return data + width + (", as trained" if options.as_trained else "") + seeds


def _config(options: argparse.Namespace, data: str, objective: str, method: str, seed: int) -> Config:
    name = "cifar100-small" if data == "images" else "pairs"
    settings = {name if "." in name else SELECTOR + name: value for name, value in METHODS[method].items()} | {
        "seed": str(seed),
        "objective.loss": objective,
        "evaluation.every_steps": str(options.evaluate_every),
    }
    if data == "images":
        settings["data.root"] = json.dumps(str(options.cifar))
        if options.as_trained:
            settings["evaluation.statistics"] = "0"
    else:
        settings["data.name"] = json.dumps(data if data == "functions" else f"pairs:{options.pairs}")
    if options.epochs is not None:
        settings["epochs"] = str(options.epochs)
    if options.evaluate_epochs is not None:
        settings["evaluation.every_epochs"] = str(options.evaluate_epochs)
    if options.train is not None:
        settings["data.train"] = str(options.train)
    if options.width is not None and data == "images":
        settings["model.width"] = str(options.width)
    config = config_by(name, settings)
    return _as_many_steps(config) if method == "Ordered" else config


def _as_many_steps(config: Config) -> Config:
    """Ordered SGD with as many steps in an epoch as the other methods take."""
    if config.data.train is None:
        raise SystemExit("Ordered needs --train: how many samples there are is not known before")
    selector: Any = config.selection.selector
    selector = replace(selector, steps=config.data.train // config.batch_size)
    return replace(config, selection=replace(config.selection, selector=selector))


def _measure(config: Config, data: str, objective: str, method: str, jobs: int) -> Row:
    about = {"jobs": jobs, "data": data, "objective": objective, "method": method}
    return about | {"seed": config.seed} | measured_run(config)


def _summary(rows: Sequence[Row]) -> list[Row]:
    """Of each data set, objective and method: top-1, its spread, the share of steps that it needs, the time it adds."""
    summary = []
    order = list(METHODS).index
    kinds = {(row["data"], row["objective"], row["method"]) for row in rows}
    for data, objective, method in sorted(kinds, key=lambda kind: (*kind[:2], order(kind[2]))):
        same = [row for row in rows if (row["data"], row["objective"]) == (data, objective)]
        runs = [row for row in same if row["method"] == method]
        shuffled = {row["seed"]: row for row in same if row["method"] == "Shuffle"}
        pairs = [(row, shuffled[row["seed"]]) for row in runs if row["seed"] in shuffled]
        shares = [share_of_steps(row, base) for row, base in pairs]
        alone = [(row, base) for row, base in pairs if row["jobs"] == base["jobs"] == 1]
        added = [_added(row) for row, _ in alone if "recording" in row["seconds"]]
        slower = [loop_seconds(row) / loop_seconds(base) - 1 for row, base in alone]
        reached = [share for share in shares if share is not None]
        scores = [row["top1"] for row in runs]
        summary.append(
            {
                "data": data,
                "objective": objective,
                "method": method,
                "seeds": len(runs),
                "top1": statistics.fmean(scores),
                "spread": spread(scores),
                "gain": statistics.fmean(row["top1"] - base["top1"] for row, base in pairs) if pairs else None,
                "share_of_steps": statistics.fmean(reached) if reached and len(reached) == len(shares) else None,
                "added_time": statistics.fmean(added) if added else None,
                "slower": statistics.fmean(slower) if slower else None,
            }
        )
    return summary


def _added(row: Row) -> float:
    """What recording, planning and sampling took in a run, beside all else in its loop."""
    seconds = row["seconds"]
    return float((seconds["planning"] + seconds["recording"]) / (seconds["training"] - seconds["recording"]))


def _line(row: Row) -> str:
    name = f"{row['data']} {row['objective']} {row['method']} seed {row['seed']}"
    return f"{name}: top-1 {row['top1']:.2%}, {loop_seconds(row):.1f} s ({row['seconds']['planning']:.1f} s planning)"


def _table(summary: Sequence[Row]) -> str:
    header = f"{'data':22}{'objective':11}{'method':28}" + "".join(
        f"{name:>{width}}"
        for name, width in (("top-1", 9), ("spread", 9), ("gain", 9), ("steps", 8), ("time", 9), ("slower", 9))
    )
    lines = [header]
    for row in summary:
        numbers = (
            f"{percent(row['top1']):>9}{percent(row['spread']):>9}{percent(row['gain']):>9}"
            f"{'-' if row['share_of_steps'] is None else format(row['share_of_steps'], '.2f'):>8}"
            f"{percent(row['added_time']):>9}{percent(row['slower']):>9}"
        )
        lines.append(f"{row['data']:22}{row['objective']:11}{row['method']:28}{numbers}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
