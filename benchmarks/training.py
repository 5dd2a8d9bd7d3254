"""Shuffle, Spectral and Cut at equal steps: retrieval, steps until Shuffle's final accuracy, and the time it adds.

`training.py --cifar ROOT` trains on images (ROOT holds `cifar-100-python`), `--pairs FILE` on pairs of features. Prints
a table with the mean and the spread over seeds, and stores all of it as JSON.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from batchcut.training import Config, config_of, recipe, train, with_overrides

METHODS: dict[str, dict[str, str]] = {
    "Shuffle": {"selection.selector.method": "shuffle"},
    "Spectral": {
        "selection.selector.method": "spectral",
        "selection.selector.pool": "40",
        "selection.selector.partial_pool": "true",
    },
    "Cut": {"selection.selector.method": "cut"},
}


def main() -> None:
    """Runs every combination that was asked for."""
    options = _options()
    rows = []
    for data, objective in _sets(options):
        for method in options.methods:
            for seed in range(options.seeds):
                rows.append(_measure(_config(options, data, objective, method, seed), data, objective, method))
                print(_line(rows[-1]), flush=True)
    summary = _summary(rows)
    print(_table(summary))
    if options.output is not None:
        options.output.write_text(json.dumps({"runs": rows, "summary": summary}, indent=2) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cifar", type=Path, help="folder that holds cifar-100-python")
    parser.add_argument("--pairs", type=Path, help="file of pairs of features")
    parser.add_argument("--objectives", nargs="+", default=["simclr", "sogclr"], help="for images")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="instead of 10 for images and 6 for pairs")
    parser.add_argument("--train", type=int, help="use so many training samples")
    parser.add_argument("--evaluate-every", type=int, default=160, help="steps between two evaluations")
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    options = parser.parse_args()
    if options.cifar is None and options.pairs is None:
        parser.error("give --cifar ROOT, --pairs FILE or both")
    return options


def _sets(options: argparse.Namespace) -> list[tuple[str, str]]:
    images = [("images", objective) for objective in options.objectives] if options.cifar else []
    return images + ([("pairs", "infonce")] if options.pairs else [])


def _config(options: argparse.Namespace, data: str, objective: str, method: str, seed: int) -> Config:
    name = "cifar100-small" if data == "images" else "pairs"
    settings = METHODS[method] | {
        "seed": str(seed),
        "objective.loss": objective,
        "evaluation.every_steps": str(options.evaluate_every),
    }
    if data == "images":
        settings["data.root"] = json.dumps(str(options.cifar))
    else:
        settings["data.name"] = json.dumps(f"pairs:{options.pairs}")
    if options.epochs is not None:
        settings["epochs"] = str(options.epochs)
    if options.train is not None:
        settings["data.train"] = str(options.train)
    return config_of(with_overrides(recipe(name), settings), source=f"recipe {name}")


def _measure(config: Config, data: str, objective: str, method: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result = train(config, Path(folder) / "run")
        text = (Path(folder) / "run" / "metrics.jsonl").read_text(encoding="utf-8")
    events = [json.loads(line) for line in text.splitlines()]
    curve = [(event["step"], event["top1"]) for event in events if event["event"] == "evaluation"]
    return {
        "data": data,
        "objective": objective,
        "method": method,
        "seed": config.seed,
        "steps": result.steps,
        "top1": result.scores["top1"],
        "curve": curve,
        "seconds": result.seconds,
    }


def _summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each data set, objective and method: top-1, its spread, the share of steps that it needs, the time it adds."""
    summary = []
    for data, objective, method in dict.fromkeys((row["data"], row["objective"], row["method"]) for row in rows):
        same = [row for row in rows if (row["data"], row["objective"]) == (data, objective)]
        runs = [row for row in same if row["method"] == method]
        shuffled = {row["seed"]: row for row in same if row["method"] == "Shuffle"}
        pairs = [(row, shuffled[row["seed"]]) for row in runs if row["seed"] in shuffled]
        shares = [_share_of_steps(row, base) for row, base in pairs]
        added = [_loop_seconds(row) / _loop_seconds(base) - 1 for row, base in pairs]
        reached = [share for share in shares if share is not None]
        scores = [row["top1"] for row in runs]
        summary.append(
            {
                "data": data,
                "objective": objective,
                "method": method,
                "seeds": len(runs),
                "top1": statistics.fmean(scores),
                "spread": statistics.stdev(scores) if len(scores) > 1 else None,
                "gain": statistics.fmean(row["top1"] - base["top1"] for row, base in pairs) if pairs else None,
                "share_of_steps": statistics.fmean(reached) if reached and len(reached) == len(shares) else None,
                "added_time": statistics.fmean(added) if added else None,
            }
        )
    return summary


def _share_of_steps(row: dict[str, Any], base: dict[str, Any]) -> float | None:
    """The share of its steps after which a run is as good as the shuffled one at its end; None if it never is."""
    return next((step / base["steps"] for step, top1 in row["curve"] if top1 >= base["top1"]), None)


def _loop_seconds(row: dict[str, Any]) -> float:
    """Recording, planning and sampling count; evaluation and checkpoints do not."""
    return float(row["seconds"]["training"] + row["seconds"]["planning"])


def _line(row: dict[str, Any]) -> str:
    name = f"{row['data']} {row['objective']} {row['method']} seed {row['seed']}"
    return f"{name}: top-1 {row['top1']:.2%}, {_loop_seconds(row):.1f} s ({row['seconds']['planning']:.1f} s planning)"


def _table(summary: Sequence[dict[str, Any]]) -> str:
    header = f"{'data':8}{'objective':11}{'method':10}{'top-1':>9}{'spread':>9}{'gain':>9}{'steps':>8}{'time':>9}"
    lines = [header]
    for row in summary:
        numbers = (
            f"{_percent(row['top1']):>9}{_percent(row['spread']):>9}{_percent(row['gain']):>9}"
            f"{'-' if row['share_of_steps'] is None else format(row['share_of_steps'], '.2f'):>8}"
            f"{_percent(row['added_time']):>9}"
        )
        lines.append(f"{row['data']:8}{row['objective']:11}{row['method']:10}{numbers}")
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


if __name__ == "__main__":
    main()
