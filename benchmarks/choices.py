"""What the settings of planning do to retrieval: pools of several sizes, plans that are kept, the margin.

`choices.py --functions` trains the recipe `pairs` with shuffled batches, with the default (`Cut` with its background)
and with one setting changed at a time, on the same seeds. "hardness" is the mean loss of planned batches over that of
shuffled ones, by the embeddings that the plan was made from, a geometric mean over the plans of a run. With `--output`
all is stored as JSON after each run, and runs that are there already are not made again.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.training_runs import (
    Row,
    compared,
    digest,
    measured_run,
    pair_sets,
    percent,
    store,
    stored_rows,
    write_pairs,
)

from batchcut.training import Config, config_of, recipe, with_overrides

SHUFFLED, DEFAULT = "shuffled", "default"
POOLS = (2, 10, 40)
SETTINGS: dict[str, dict[str, str]] = {
    SHUFFLED: {"selection.selector.method": "shuffle"},
    **{f"pool={pool}": {"selection.selector.pool": str(pool)} for pool in POOLS},
    DEFAULT: {},
    "replan_every=5": {"selection.replan_every": "5"},
    "margin=None": {"selection.selector.margin": "none"},
}


def config_for(setting: str, file: Path, seed: int) -> Config:
    """The recipe with one setting changed; scored and saved at the end alone."""
    overrides = SETTINGS[setting] | {
        "data.name": json.dumps(f"pairs:{file}"),
        "seed": str(seed),
        "evaluation.every_epochs": "0",
        "keeping.checkpoint_epochs": "1000",
        "keeping.embeddings": "0",
    }
    return config_of(with_overrides(recipe("pairs"), overrides), source="recipe pairs")


def summary(rows: Sequence[Row]) -> list[Row]:
    """Of each data set and setting: how hard its plans are, top-1, and its gain over shuffled batches by seed."""
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        for setting in SETTINGS:
            own = {row["seed"]: row for row in rows if (row["data"], row["setting"]) == (data, setting)}
            base = {row["seed"]: row["top1"] for row in rows if (row["data"], row["setting"]) == (data, SHUFFLED)}
            gains = [row["top1"] - base[seed] for seed, row in sorted(own.items()) if seed in base]
            if own:
                hardness = statistics.fmean(row["hardness"] for row in own.values())
                top1 = {seed: row["top1"] for seed, row in own.items()}
                lines.append({"data": data, "setting": setting, "hardness": hardness} | compared(top1, gains, []))
    return lines


def main() -> None:
    """Runs what is missing and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="file of pairs of features")
    parser.add_argument("--functions", action="store_true", help="the Python functions on this machine")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=60)
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    options = parser.parse_args()
    readers = pair_sets(options.pairs, functions=options.functions)
    if not readers:
        parser.error("give --pairs FILE, --functions or both")
    rows = stored_rows(options.output)
    with tempfile.TemporaryDirectory() as folder:
        for data, read in readers.items():
            file = Path(folder, f"{data}.npz")
            write_pairs(read(), file)
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                for setting in options.settings:
                    config = config_for(setting, file, seed)
                    place = {"data": data, "setting": setting, "seed": seed, "config": digest(config)}
                    if any(all(row[key] == value for key, value in place.items()) for row in rows):
                        continue
                    run = measured_run(config)
                    rows.append(place | {"top1": run["top1"], "hardness": run["hardness"]})
                    store(options.output, {"summary": summary(rows), "runs": rows})
                    print(f"{data}, {setting}, seed {seed}: {run['top1']:.2%}", flush=True)
    for line in summary(rows):
        print(f"{line['data']:11}{line['setting']:18}{line['hardness']:6.1f}{percent(line['top1']):>9}")


if __name__ == "__main__":
    main()
