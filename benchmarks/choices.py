"""What the settings of planning do to retrieval: pools of several sizes, plans that are kept, the margin.

`choices.py --functions` trains the recipe `pairs` with shuffled batches, with the default (`Cut` with its background)
and with one setting changed at a time, on the same seeds. "hardness" is the mean loss of planned batches over that of
shuffled ones, by the embeddings that the plan was made from, a geometric mean over the plans of a run. With `--output`
all is stored as JSON after each run, and runs that are there already are not made again.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops.runs import (
    AT_THE_END,
    Results,
    Row,
    command_line,
    compared,
    config_by,
    digest,
    measured_run,
    parsed,
    percent,
    write_pairs,
)

from batchcut.training import Config

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
    """The recipe with one setting changed."""
    data = {"data.name": json.dumps(f"pairs:{file}"), "seed": str(seed)}
    return config_by("pairs", SETTINGS[setting] | data | AT_THE_END)


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


def run(config: Config) -> Row:
    """Trains once; top-1 on the test part, and how hard the plans were."""
    found = measured_run(config)
    return {"top1": found["top1"], "hardness": found["hardness"]}


def main() -> None:
    """Runs what is missing and prints what came out."""
    parser = command_line(__doc__, seeds=3, first_seed=60)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    options, readers, seeds = parsed(parser)
    results = Results(options.output, facts=facts_of, line=_line)
    with tempfile.TemporaryDirectory() as folder:
        for data, read in readers.items():
            file = Path(folder, f"{data}.npz")
            write_pairs(read(), file)
            for seed in seeds:
                for setting in options.settings:
                    config = config_for(setting, file, seed)
                    key = {"data": data, "setting": setting, "seed": seed, "config": digest(config)}
                    results.add(key, run, config)
    for line in summary(results.runs):
        print(f"{line['data']:11}{line['setting']:18}{line['hardness']:6.1f}{percent(line['top1']):>9}")


def facts_of(runs: Sequence[Row]) -> Row:
    """All that is stored."""
    return {"summary": summary(runs), "runs": runs}


def _line(row: Row) -> str:
    return f"{row['data']}, {row['setting']}, seed {row['seed']}: {row['top1']:.2%}"


if __name__ == "__main__":
    main()
