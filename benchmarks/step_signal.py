"""When do planned batches begin to pay? The signal of a step, planned against shuffled, as shuffled training goes on.

`step_signal.py NAMES` trains two small towers on each, a file of pairs or `functions`; `--pretrained` fine-tunes MiniLM
on functions (see `finetune.py`). Training is shuffled; after each epoch `Cut` plans from the embeddings as they are,
and `step_signal` compares its batches with random ones. With `--output` the figures are stored as JSON.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import towers

from batchcut.selection import Cut, step_signal

TAU = 0.05
MOST = 8192  # samples, of which signals are measured
Row = dict[str, Any]


def main() -> None:
    """Runs what was asked for and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="files of pairs, or functions")
    parser.add_argument("--pretrained", action="store_true", help="fine-tune MiniLM, too")
    parser.add_argument("--pairs", type=int, default=3200, help="to fine-tune it on")
    parser.add_argument("--seed", type=int, default=90)
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    options = parser.parse_args()
    rows = json.loads(options.output.read_text("utf-8"))["rows"] if options.output and options.output.exists() else []
    for name in options.names:
        data = "functions" if name == "functions" else "pairs"
        rows = _replaced(rows, "two towers", data, of_towers(towers.load(name), seed=options.seed), options.output)
    if options.pretrained:
        rows = _replaced(rows, "MiniLM", "functions", of_pretrained(options.pairs, options.seed), options.output)
    for row in rows:
        print("{model}, {data}, after {epoch}: {planned:.3f} planned, {shuffled:.3f} shuffled".format(**row))


def _replaced(rows: list[Row], model: str, data: str, found: list[Row], output: Path | None) -> list[Row]:
    rows = [row for row in rows if (row["model"], row["data"]) != (model, data)]
    rows += [{"model": model, "data": data} | row for row in found]
    if output is not None:
        output.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    return rows


def measured(u: Any, v: Any, *, batch_size: int, epoch: int) -> Row:
    """The signal by some embeddings, those after so many epochs."""
    plan = Cut(temperature=TAU)(u, v, batch_size=batch_size)
    signal = step_signal(u, v, plan, temperature=TAU)
    return {"epoch": epoch, "batch_size": batch_size, "planned": signal.planned, "shuffled": signal.shuffled}


def of_towers(data: towers.Split, *, seed: int, batch_size: int = 32, epochs: int = 6) -> list[Row]:
    """Two towers, after each epoch."""
    rows: list[Row] = []
    some = [side[:MOST] for side in data.train]

    def after(state: towers.State) -> None:
        rows.append(measured(*state.towers.units(some), batch_size=batch_size, epoch=state.epoch))

    towers.train(data, towers.shuffled, None, seed=seed, batch_size=batch_size, epochs=epochs, after=after)
    return rows


def of_pretrained(count: int, seed: int, *, batch_size: int = 16, epochs: int = 3) -> list[Row]:
    """MiniLM, as it comes and after each epoch."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    from benchmarks.finetune import drawn
    from benchmarks.finetune_run import Method, embedded, trained
    from benchmarks.finetune_sets import load

    pairs = drawn(load("functions").train, count, seed)
    rows: list[Row] = []

    def after(model: Any, epoch: int) -> None:
        rows.append(measured(*map(np.asarray, embedded(model, pairs)), batch_size=batch_size, epoch=epoch))

    after(trained(pairs, Method(), seed=seed, batch=batch_size, steps=0, rate=0.0).model, 0)
    steps = epochs * -(-count // batch_size)
    trained(pairs, Method(), seed=seed, batch=batch_size, steps=steps, rate=1e-4, after_epoch=after)
    return rows


if __name__ == "__main__":
    main()
