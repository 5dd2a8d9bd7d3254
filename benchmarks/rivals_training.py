"""Planned batches beside other ways to get more out of small batches, at equal steps, in one plain loop.

`rivals_training.py --pairs FILE --functions` trains the towers of the recipe `pairs` (B = 32, six epochs) with shuffled
batches, with a memory of old embeddings (XBM), a moving average (SogCLR), mined negatives, groups of hard samples (B3),
and planned batches; nothing but the batches and the loss differs. With `--output` all is stored as JSON after each run,
and runs that are there already are not made again. Seconds want an idle machine, so they have a pass of their own:
`--time`.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops.rivals import RIVALS, train_by
from benchmarks.loops.runs import (
    Results,
    Row,
    command_line,
    compared,
    config_by,
    digest,
    heads_of_scores,
    parsed,
    scores_of,
    without_test,
)

from batchcut.data import Split
from batchcut.training import Config


def config_for(seed: int, rate: float | None = None) -> Config:
    """The recipe, with a seed and, to see how much it matters, another learning rate."""
    overrides = {"seed": str(seed), "data.name": json.dumps("pairs:none")}
    if rate is not None:
        overrides["optimizer.learning_rate"] = str(rate)
    return config_by("pairs", overrides)


def summary(runs: Sequence[Row], timed: Sequence[Row]) -> list[Row]:
    """Of each data set and rival: top-1, its gain over shuffled batches by seed, and seconds."""
    lines = []
    for data in dict.fromkeys(row["data"] for row in runs):
        by_rival = {
            name: {row["seed"]: row["top1"] for row in runs if (row["data"], row["rival"]) == (data, name)}
            for name in RIVALS
        }
        for name, own in by_rival.items():
            base = by_rival["shuffled"]
            gains = [own[seed] - base[seed] for seed in sorted(own.keys() & base.keys())]
            seconds = [row["loop"] for row in timed if (row["data"], row["rival"]) == (data, name)]
            if own:
                lines.append({"data": data, "rival": name} | compared(own, gains, seconds))
    return lines


def table(lines: Sequence[Row]) -> str:
    """The summary as text."""
    text = [f"{'data':11}{'batches':28}{heads_of_scores()}"]
    return "\n".join(text + [f"{line['data']:11}{line['rival']:28}{scores_of(line)}" for line in lines])


def run(name: str, split: Split, config: Config) -> Row:
    """Trains once by the rival of that name."""
    outcome = train_by(name, split, config)
    return {"steps": outcome.steps, "top1": outcome.top1}


def timed_run(name: str, split: Split, config: Config) -> Row:
    """The seconds of the same."""
    return {"loop": train_by(name, split, config).seconds}


def main() -> None:
    """Runs what is missing and prints what came out."""
    parser = command_line(__doc__, seeds=5, first_seed=60)
    parser.add_argument("--rivals", nargs="+", default=list(RIVALS), choices=list(RIVALS))
    parser.add_argument("--time", action="store_true", help="take seconds, on an idle machine")
    parser.add_argument("--rate", type=float, help="another learning rate; give another file for --output, too")
    parser.add_argument("--held-out", action="store_true", help="a tenth of the training rows instead of the test")
    options, readers, seeds = parsed(parser)
    results = Results(options.output, facts=facts_of, line=_line, names=("runs", "timed"))
    rows, make = ("timed", timed_run) if options.time else ("runs", run)
    for data, read in readers.items():
        split = without_test(read()) if options.held_out else read()
        for seed in seeds:
            config = config_for(seed, options.rate)
            for name in options.rivals:
                key = {"data": data, "rival": name, "seed": seed, "config": digest(config)}
                results.add(key, make, name, split, config, name=rows)
    print(table(summary(**results.rows)))


def facts_of(runs: Sequence[Row], timed: Sequence[Row]) -> Row:
    """All that is stored."""
    return {"summary": summary(runs, timed), "runs": runs, "timed": timed}


def _line(row: Row) -> str:
    found = f"{row['top1']:.2%}" if "top1" in row else f"{row['loop']:.1f} s"
    return f"{row['data']}, {row['rival']}, seed {row['seed']}: {found}"


if __name__ == "__main__":
    main()
