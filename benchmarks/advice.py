"""Is the advice of `batchcut select` right, and how long should training be shuffled first?

`advice.py --pairs FILE --functions` trains the towers of the recipe `pairs` with the first k of six epochs shuffled and
the others planned, for each k; k = 6 is shuffled throughout. Of that run it asks, after the first epoch,
`selection.prospects` for several batch sizes, and puts the answers beside the gains of batch_sizes_results.json. It
prints what the epochs that are not planned cost, too. With `--output` all is stored as JSON after each run, and runs
that are there already are not made again.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rivals_loop import Batches, Planned, Task, run_loop
from benchmarks.rivals_training import config_for
from benchmarks.training_runs import Row, pair_sets, spread, store, stored_rows

from batchcut.data import Pairs, Split
from batchcut.evaluation import retrieval
from batchcut.selection import Cut, prospects
from batchcut.training import Config
from batchcut.training._model import build_model
from batchcut.training._optimizer import build_optimizer

SIZES = (16, 32, 64, 128, 256, 512)
GAINS = Path(__file__).parent / "batch_sizes_results.json"


class Asked(Planned):
    """Planned batches after some shuffled epochs; where all are shuffled, the advice after the first is kept."""

    def __init__(self, task: Task, *, shuffled_epochs: int, sizes: Sequence[int]) -> None:
        super().__init__(task, background=True)
        self.shuffled_epochs, self.sizes = shuffled_epochs, sizes
        selector = task.config.selection.selector
        self.sampler = self._sampler(selector, shuffled_epochs=shuffled_epochs, background=True)
        self.advice: list[Row] = []

    def batches(self, epoch: int) -> Batches:
        """Those of the sampler."""
        if epoch == 1 and self.shuffled_epochs >= self.task.config.epochs:
            with torch.no_grad():
                u, v = (side.numpy() for side in self.task.embed(torch.arange(len(self.bank))))
            for size in self.sizes:
                plan = Cut()(u, v, batch_size=size, temperature=self.task.temperature)
                found = prospects(u, v, plan)
                self.advice.append({"batch_size": size, "times_shuffled": found.times_shuffled, "pays": found.pays})
        return super().batches(epoch)


def run(split: Split, config: Config, *, shuffled_epochs: int, sizes: Sequence[int] = SIZES) -> Row:
    """Trains once; top-1 on the test part, and the advice where it was asked for."""
    train, test = split.train, split.test
    assert isinstance(train, Pairs)
    assert isinstance(test, Pairs)
    x, y, test_x, test_y = (torch.tensor(side).float() for side in (train.u, train.v, test.u, test.v))
    towers = build_model(config.model, seed=config.seed, inputs=(x.shape[1], y.shape[1]))
    rival = Asked(Task(config, x, y, towers), shuffled_epochs=shuffled_epochs, sizes=sizes)
    run_loop(rival, build_optimizer(towers, config.optimizer, config.peak_rate))
    with torch.no_grad():
        score = retrieval(*(side.numpy() for side in towers(test_x, test_y)))
    return {"shuffled_epochs": shuffled_epochs, "top1": score.top1, "advice": rival.advice}


def advice_lines(rows: Sequence[Row], gains: Sequence[Row]) -> list[Row]:
    """For each set and batch size: what the advice rests on, and what planned batches gain over shuffled ones."""
    measured = {(row["data"], row["batch_size"]): row for row in gains if row["method"] == "cut"}
    asked = [one | {"data": row["data"]} for row in rows for one in row["advice"]]
    lines = []
    for key in dict.fromkeys((one["data"], one["batch_size"]) for one in asked):
        if key in measured:
            here = [one for one in asked if (one["data"], one["batch_size"]) == key]
            gain, error = measured[key]["gain"], measured[key]["gain_spread"] / math.sqrt(measured[key]["seeds"])
            pays = 2 * sum(one["pays"] for one in here) > len(here)
            line = {"data": key[0], "batch_size": key[1], "gain": gain, "error": error, "pays": pays}
            line["times_shuffled"] = statistics.fmean(one["times_shuffled"] for one in here)
            lines.append(line)
    return lines


def waiting_lines(rows: Sequence[Row]) -> list[Row]:
    """For each set and number of shuffled epochs: the gain over training that is shuffled throughout, by seed."""
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        found = {(row["seed"], row["shuffled_epochs"]): row["top1"] for row in rows if row["data"] == data}
        counts = sorted({count for _, count in found})
        for count in counts[:-1]:
            seeds = [seed for seed, own in found if own == count and (seed, counts[-1]) in found]
            gains = [found[seed, count] - found[seed, counts[-1]] for seed in seeds]
            if gains:
                line = {"data": data, "shuffled_epochs": count, "seeds": len(gains), "gain": statistics.fmean(gains)}
                deviation = spread(gains)
                lines.append(line | {"error": None if deviation is None else deviation / math.sqrt(len(gains))})
    return lines


def facts_of(rows: Sequence[Row]) -> Row:
    """All that is stored."""
    gains = json.loads(GAINS.read_text(encoding="utf-8"))["summary"]
    return {"summary": advice_lines(rows, gains), "waiting": waiting_lines(rows), "runs": rows}


def main() -> None:
    """Runs what is missing and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="file of pairs of features")
    parser.add_argument("--functions", action="store_true", help="the Python functions on this machine")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=90)
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    options = parser.parse_args()
    readers = pair_sets(options.pairs, functions=options.functions)
    if not readers:
        parser.error("give --pairs FILE, --functions or both")
    torch.set_num_threads(1)
    rows = stored_rows(options.output)
    for data, read in readers.items():
        split = read()
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            config = config_for(seed)
            for count in range(1, config.epochs + 1):
                key = {"data": data, "seed": seed, "shuffled_epochs": count}
                if not any(key.items() <= row.items() for row in rows):
                    rows.append(key | run(split, config, shuffled_epochs=count))
                    print(f"{data}, seed {seed}, {count} epochs shuffled: {rows[-1]['top1']:.2%}", flush=True)
                    store(options.output, facts_of(rows))
    print(table(facts_of(rows)))


def table(facts: Row) -> str:
    """Both summaries as text."""
    lines = [f"{'data':11}{'B':>5}{'times the loss':>16}{'advised':>9}{'gain':>8}{'±':>6}"]
    for row in facts["summary"]:
        said = f"{row['times_shuffled']:>16.1f}{'yes' if row['pays'] else 'no':>9}"
        lines.append(f"{row['data']:11}{row['batch_size']:>5}{said}{100 * row['gain']:>8.2f}{100 * row['error']:>6.2f}")
    lines += ["", f"{'data':11}{'shuffled epochs':>16}{'seeds':>7}{'gain':>8}{'±':>6}"]
    for row in facts["waiting"]:
        error = "-" if row["error"] is None else f"{100 * row['error']:.2f}"
        lines.append(
            f"{row['data']:11}{row['shuffled_epochs']:>16}{row['seeds']:>7}{100 * row['gain']:>8.2f}{error:>6}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
