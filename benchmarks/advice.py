"""Is the advice of `batchcut select` right, and how long should training be shuffled first?

`advice.py --pairs FILE --functions` trains the towers of the recipe `pairs` with the first k of six epochs shuffled and
the others planned, for each k; k = 6 is shuffled throughout. Of that run it asks, after the first epoch,
`selection.prospects` for several batch sizes, and puts the answers beside the gains of batch_sizes_results.json. It
prints what the epochs that are not planned cost, too. With `--output` all is stored as JSON after each run, and runs
that are there already are not made again.
"""

import json
import math
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops.rivals import Batches, Planned, Task, trained
from benchmarks.loops.runs import Results, Row, command_line, parsed, standard_error
from benchmarks.rivals_training import config_for

from batchcut.data import Split
from batchcut.selection import Cut, prospects
from batchcut.training import Config

SIZES = (16, 32, 64, 128, 256, 512)
GAINS = Path(__file__).parent / "results" / "batch_sizes_results.json"


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
    asked, outcome = trained(partial(Asked, shuffled_epochs=shuffled_epochs, sizes=sizes), split, config)
    return {"shuffled_epochs": shuffled_epochs, "top1": outcome.top1, "advice": asked.advice}


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
                lines.append(line | {"error": standard_error(gains)})
    return lines


def facts_of(runs: Sequence[Row]) -> Row:
    """All that is stored."""
    gains = json.loads(GAINS.read_text(encoding="utf-8"))["summary"]
    return {"summary": advice_lines(runs, gains), "waiting": waiting_lines(runs), "runs": runs}


def main() -> None:
    """Runs what is missing and prints what came out."""
    options, readers, seeds = parsed(command_line(__doc__, seeds=3, first_seed=90))
    torch.set_num_threads(1)
    results = Results(options.output, facts=facts_of, line=_line)
    for data, read in readers.items():
        split = read()
        for seed in seeds:
            config = config_for(seed)
            for count in range(1, config.epochs + 1):
                key = {"data": data, "seed": seed, "shuffled_epochs": count}
                results.add(key, partial(run, split, config, shuffled_epochs=count))
    print(table(results.facts))


def _line(row: Row) -> str:
    return f"{row['data']}, seed {row['seed']}, {row['shuffled_epochs']} epochs shuffled: {row['top1']:.2%}"


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
