"""Planned batches beside other ways to get more out of small batches, at equal steps, in one plain loop.

`rivals_training.py --pairs FILE --functions` trains the towers of the recipe `pairs` (B = 32, six epochs) with shuffled
batches, with a memory of old embeddings (XBM), a moving average (SogCLR), mined negatives, groups of hard samples (B3),
and planned batches; nothing but the batches and the loss differs. With `--output` all is stored as JSON after each run,
and runs that are there already are not made again. Seconds want an idle machine, so they have a pass of their own:
`--time`.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rivals_loop import RIVALS, train_by
from benchmarks.training_runs import Row, compared, digest, pair_sets, percent, store, stored_rows, without_test

from batchcut.training import Config, config_of, recipe, with_overrides


def config_for(seed: int, rate: float | None = None) -> Config:
    """The recipe, with a seed and, to see how much it matters, another learning rate."""
    overrides = {"seed": str(seed), "data.name": json.dumps("pairs:none")}
    if rate is not None:
        overrides["optimizer.learning_rate"] = str(rate)
    return config_of(with_overrides(recipe("pairs"), overrides), source="recipe pairs")


def summary(rows: Sequence[Row], timed: Sequence[Row]) -> list[Row]:
    """Of each data set and rival: top-1, its gain over shuffled batches by seed, and seconds."""
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        by_rival = {
            name: {row["seed"]: row["top1"] for row in rows if (row["data"], row["rival"]) == (data, name)}
            for name in RIVALS
        }
        for name, runs in by_rival.items():
            base = by_rival["shuffled"]
            gains = [runs[seed] - base[seed] for seed in sorted(runs.keys() & base.keys())]
            seconds = [row["loop"] for row in timed if (row["data"], row["rival"]) == (data, name)]
            if runs:
                lines.append({"data": data, "rival": name} | compared(runs, gains, seconds))
    return lines


def table(lines: Sequence[Row]) -> str:
    """The summary as text."""
    names = (("seeds", 7), ("top-1", 9), ("spread", 9), ("gain", 9), ("spread", 9), ("seconds", 9))
    text = [f"{'data':11}{'batches':28}" + "".join(f"{name:>{width}}" for name, width in names)]
    for line in lines:
        scores = "".join(f"{percent(line[name]):>9}" for name in ("top1", "spread", "gain", "gain_spread"))
        seconds = "-" if line["seconds"] is None else f"{line['seconds']:.1f}"
        text.append(f"{line['data']:11}{line['rival']:28}{line['seeds']:7}{scores}{seconds:>9}")
    return "\n".join(text)


def main() -> None:
    """Runs what is missing and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="file of pairs of features")
    parser.add_argument("--functions", action="store_true", help="the Python functions on this machine")
    parser.add_argument("--rivals", nargs="+", default=list(RIVALS), choices=list(RIVALS))
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first-seed", type=int, default=60)
    parser.add_argument("--time", action="store_true", help="take seconds, on an idle machine")
    parser.add_argument("--rate", type=float, help="another learning rate; give another file for --output, too")
    parser.add_argument("--held-out", action="store_true", help="a tenth of the training rows instead of the test")
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    options = parser.parse_args()
    readers = pair_sets(options.pairs, functions=options.functions)
    if not readers:
        parser.error("give --pairs FILE, --functions or both")
    runs, timed = stored_rows(options.output), stored_rows(options.output, "timed")
    for data, read in readers.items():
        split = without_test(read()) if options.held_out else read()
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            config = config_for(seed, options.rate)
            for name in options.rivals:
                key = {"data": data, "rival": name, "seed": seed, "config": digest(config)}
                if not options.time and any(all(row[k] == value for k, value in key.items()) for row in runs):
                    continue
                outcome = train_by(name, split, config)
                if options.time:
                    timed.append(key | {"loop": outcome.seconds})
                else:
                    runs.append(key | {"steps": outcome.steps, "top1": outcome.top1})
                print(f"{data}, {name}, seed {seed}: {outcome.top1:.2%}, {outcome.seconds:.1f} s", flush=True)
                store(options.output, {"summary": summary(runs, timed), "runs": runs, "timed": timed})
    print(table(summary(runs, timed)))


if __name__ == "__main__":
    main()
