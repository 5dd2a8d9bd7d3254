"""Runs of `batchcut train` as benchmarks make them: settings, one run, and rows that are stored as they come."""

import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from batchcut.data import Pairs, Split, load
from batchcut.sampling import EmbeddingBank
from batchcut.training import Config, to_toml, train

Row = dict[str, Any]

_NO_MATTER = ("root =", 'name = "pairs:', "tensorboard =")  # settings by which no result differs
_HELD_OUT = 10  # one in so many training rows, where something is to be chosen


def stored_rows(path: Path | None, name: str = "runs") -> list[Row]:
    """The rows of that name in a file of results; none where there is no file."""
    if path is None or not path.exists():
        return []
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")).get(name, [])
    return rows


def store(path: Path | None, facts: dict[str, Any]) -> None:
    """Writes results as JSON, if there is a file to write to."""
    if path is not None:
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def digest(config: Config) -> str:
    """A name for the settings of a run, wherever its data lie."""
    lines = [line for line in to_toml(config).splitlines() if not line.startswith(_NO_MATTER)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def measured_run(config: Config) -> Row:
    """Top-1 at the end of a run and on the way, its steps, how hard its plans are, and where its time went.

    How hard: the mean loss of a plan over that of shuffled batches by the same embeddings, a geometric mean over plans.
    """
    with tempfile.TemporaryDirectory() as folder:
        with _timed_recording() as recording:
            result = train(config, Path(folder) / "run")
        text = (Path(folder) / "run" / "metrics.jsonl").read_text(encoding="utf-8")
    events = [json.loads(line) for line in text.splitlines()]
    plans = [event for event in events if event["event"] == "plan" and event.get("shuffled_loss")]
    ratios = [plan["mean_loss"] / plan["shuffled_loss"] for plan in plans]
    return {
        "steps": result.steps,
        "top1": result.scores["top1"],
        "curve": [(event["step"], event["top1"]) for event in events if event["event"] == "evaluation"],
        "hardness": statistics.geometric_mean(ratios) if ratios else 1.0,
        "seconds": {**result.seconds, "recording": sum(recording)},
    }


@contextmanager
def _timed_recording() -> Iterator[list[float]]:
    """Collects the seconds of each call of `EmbeddingBank.record`, which the training loop counts as its own."""
    seconds: list[float] = []
    record = EmbeddingBank.record

    def timed(*arguments: Any, **named: Any) -> None:
        start = time.perf_counter()
        record(*arguments, **named)
        seconds.append(time.perf_counter() - start)

    with mock.patch.object(EmbeddingBank, "record", timed):
        yield seconds


def loop_seconds(row: Row) -> float:
    """Recording, planning and sampling count; evaluation and checkpoints do not."""
    return float(row["seconds"]["training"] + row["seconds"]["planning"])


def pair_sets(pairs: Path | None, *, functions: bool) -> dict[str, Callable[[], Split]]:
    """What reads each set of pairs that was asked for, by its name in results."""
    readers: dict[str, Callable[[], Split]] = {}
    if pairs is not None:
        readers["pairs"] = lambda: load(f"pairs:{pairs}")
    if functions:
        readers["functions"] = lambda: load("functions")
    return readers


def without_test(split: Split) -> Split:
    """The training rows alone, a tenth of them held out: to choose by, without a look at the test."""
    order = np.random.default_rng(0).permutation(len(split.train))
    held_out = len(order) // _HELD_OUT
    return Split(split.train.take(np.sort(order[held_out:])), split.train.take(np.sort(order[:held_out])))


def write_pairs(split: Split, path: Path) -> None:
    """Both parts in a file that `pairs:FILE` reads."""
    train, test = split.train, split.test
    assert isinstance(train, Pairs)
    assert isinstance(test, Pairs)
    np.savez(path, train_u=train.u, train_v=train.v, test_u=test.u, test_v=test.v)


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation; None of one value."""
    return statistics.stdev(values) if len(values) > 1 else None


def compared(runs: dict[int, float], gains: Sequence[float], seconds: Sequence[float]) -> Row:
    """Top-1 of some seeds, what each gains over the shuffled run of its seed, and the median of the seconds."""
    return {
        "seeds": len(runs),
        "top1": statistics.fmean(runs.values()),
        "spread": spread(list(runs.values())),
        "gain": statistics.fmean(gains) if gains else None,
        "gain_spread": spread(gains),
        "seconds": statistics.median(seconds) if seconds else None,
    }


def percent(value: float | None) -> str:
    """A share with two decimals, or a dash."""
    return "-" if value is None else f"{value:.2%}"
