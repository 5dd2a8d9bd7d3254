"""Is the advice of `batchcut select` right? What it says after each epoch, beside what planning from then on gains.

`advice.py --pairs FILE --functions` trains the towers of the recipe `pairs` with the first k of six epochs shuffled and
the others planned, for each k; k = 6 is shuffled throughout. After each shuffled epoch it asks `selection.prospects`,
by the bank alone. Where the advice is to plan now, that must gain over shuffled training; where it is to wait for an
epoch, waiting must cost nothing. Both are told by seed, with the standard error of the mean. With `--output` all is
stored as JSON after each run, and runs that are there already are not made again.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rivals_loop import Batches, Planned, Shuffled, Task, run_loop
from benchmarks.training_runs import Row, pair_sets, spread, store, stored_rows

from batchcut.data import Pairs, Split
from batchcut.evaluation import retrieval
from batchcut.selection import Cut, prospects
from batchcut.training import Config, config_of, recipe, with_overrides
from batchcut.training._model import build_model
from batchcut.training._optimizer import build_optimizer

_NOISE = 2.0  # standard errors


class Asked(Planned):
    """Planned batches after some shuffled epochs, after each of which the advice is asked for."""

    def __init__(self, task: Task, *, shuffled_epochs: int) -> None:
        super().__init__(task, background=True)
        self.shuffled_epochs = shuffled_epochs
        selector = task.config.selection.selector
        self.sampler = self._sampler(selector, shuffled_epochs=shuffled_epochs, background=True)
        self.ratios: dict[int, float] = {}
        self.pays: dict[int, bool] = {}

    def batches(self, epoch: int) -> Batches:
        """Of a run that is shuffled throughout, what is advised before each epoch but the first is kept."""
        if epoch > 0 and self.shuffled_epochs >= self.task.config.epochs:
            u, v = self.recorded(np.arange(len(self.bank)), epoch)
            size, seed = self.task.config.batch_size, self.task.config.seed
            plan = Cut()(u, v, batch_size=size, seed=seed, epoch=epoch, temperature=self.task.temperature)
            found = prospects(u, v, plan)
            self.ratios[epoch], self.pays[epoch] = found.signal.ratio, found.pays
        return Shuffled.batches(self, epoch)


def run(split: Split, config: Config, *, shuffled_epochs: int) -> Row:
    """Trains once; top-1 on the test part, and the advice where it was asked for."""
    train, test = split.train, split.test
    assert isinstance(train, Pairs)
    assert isinstance(test, Pairs)
    x, y, test_x, test_y = (torch.tensor(side).float() for side in (train.u, train.v, test.u, test.v))
    towers = build_model(config.model, seed=config.seed, inputs=(x.shape[1], y.shape[1]))
    rival = Asked(Task(config, x, y, towers), shuffled_epochs=shuffled_epochs)
    run_loop(rival, build_optimizer(towers, config.optimizer, config.peak_rate))
    with torch.no_grad():
        score = retrieval(*(side.numpy() for side in towers(test_x, test_y)))
    advice = [{"epoch": epoch, "ratio": rival.ratios[epoch], "pays": rival.pays[epoch]} for epoch in rival.ratios]
    return {"shuffled_epochs": shuffled_epochs, "top1": score.top1, "advice": advice}


def summary(rows: Sequence[Row]) -> list[Row]:
    """For each set, size and number of shuffled epochs: the advice, what planning gains and what waiting costs."""
    lines = []
    for data, size in dict.fromkeys((row["data"], row["batch_size"]) for row in rows):
        same = [row for row in rows if (row["data"], row["batch_size"]) == (data, size)]
        found = {(row["seed"], row["shuffled_epochs"]): row["top1"] for row in same}
        last = max(row["shuffled_epochs"] for row in same)
        asked = [one | {"seed": row["seed"]} for row in same for one in row["advice"]]
        for epoch in range(1, last):
            here = [one for one in asked if one["epoch"] == epoch]
            seeds = [one["seed"] for one in here if {(one["seed"], k) for k in (epoch, epoch + 1, last)} <= set(found)]
            if seeds:
                gains = [found[seed, epoch] - found[seed, last] for seed in seeds]
                waits = [found[seed, epoch + 1] - found[seed, epoch] for seed in seeds]
                line = {"data": data, "batch_size": size, "shuffled_epochs": epoch, "seeds": len(seeds)}
                line["ratio"] = statistics.fmean(one["ratio"] for one in here)
                line["advised"] = sum(one["pays"] for one in here)
                for name, values in (("gain", gains), ("waiting", waits)):
                    line[name], line[f"{name}_error"] = statistics.fmean(values), _error(values)
                lines.append(line | {"right": _right(line)})
    return lines


def _error(values: Sequence[float]) -> float | None:
    deviation = spread(values)
    return None if deviation is None else deviation / math.sqrt(len(values))


def _right(line: Row) -> bool:
    """To plan now gains; to wait for an epoch costs nothing that could be told from noise."""
    if 2 * line["advised"] >= line["seeds"]:
        return bool(line["gain"] > 0)
    return bool(line["waiting"] > -_NOISE * (line["waiting_error"] or 0.0))


def table(lines: Sequence[Row]) -> str:
    """The summary as text."""
    heads = ("ratio", "advised", "gain", "±", "waiting", "±")
    text = [f"{'data':11}{'B':>5}{'shuffled':>10}{'seeds':>7}" + "".join(f"{head:>9}" for head in heads) + "  right"]
    for line in lines:
        scores = "".join(
            f"{'-' if line[name] is None else format(100 * line[name], '.2f'):>9}"
            for name in ("gain", "gain_error", "waiting", "waiting_error")
        )
        asked = f"{line['data']:11}{line['batch_size']:>5}{line['shuffled_epochs']:>10}{line['seeds']:>7}"
        said = f"{line['ratio']:>9.2f}{line['advised']:>9}"
        text.append(f"{asked}{said}{scores}  {'yes' if line['right'] else 'no'}")
    return "\n".join(text)


def main() -> None:
    """Runs what is missing and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="file of pairs of features")
    parser.add_argument("--functions", action="store_true", help="the Python functions on this machine")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 128])
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
        for size in options.batch_sizes:
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                config = _config(seed, size)
                for count in range(1, config.epochs + 1):
                    key = {"data": data, "batch_size": size, "seed": seed, "shuffled_epochs": count}
                    if not any(key.items() <= row.items() for row in rows):
                        rows.append(key | run(split, config, shuffled_epochs=count))
                        print(f"{data}, B = {size}, seed {seed}, {count} shuffled: {rows[-1]['top1']:.2%}", flush=True)
                        store(options.output, {"summary": summary(rows), "runs": rows})
    print(table(summary(rows)))


def _config(seed: int, size: int) -> Config:
    """The recipe; its learning rate grows with the root of the batch size."""
    changes = {"seed": str(seed), "data.name": json.dumps("pairs:none"), "batch_size": str(size)}
    known = recipe("pairs")
    rate = known["optimizer"]["learning_rate"] * math.sqrt(size / known["batch_size"])
    changes["optimizer.learning_rate"] = str(rate)
    return config_of(with_overrides(known, changes), source="recipe pairs")


if __name__ == "__main__":
    main()
