"""Runs of training as benchmarks make them: sets of pairs, one run, and rows that are stored as they come."""

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from batchcut.data import Pairs, Split, load
from batchcut.losses import Background
from batchcut.sampling import EmbeddingBank, _sampler
from batchcut.sampling._background import draw_background
from batchcut.training import Config, config_of, recipe, to_toml, train, with_overrides

Row = dict[str, Any]
Asked = tuple[Row, Callable[..., Row], tuple[Any, ...]]
"""The settings of a run, by which it is known, and what makes it: a function and its arguments."""

AT_THE_END = {"evaluation.every_epochs": "0", "keeping.checkpoint_epochs": "1000", "keeping.embeddings": "0"}
"""Settings of a run that is scored and saved at its end alone."""

_NO_MATTER = ("root =", 'name = "pairs:', "tensorboard =", "plan_ahead = 0.0")
"""Settings by which no result differs; among them those that came later, as long as they leave all as it was."""

_HELD_OUT = 10  # one in so many training rows, where something is to be chosen


class Results:
    """Rows of runs, stored as JSON after each; a run that is there already is not made again.

    Args:
        path: the file; None: nothing is stored.
        facts: what is stored, from the lists of rows, by name.
        line: a line of text on a row, which is printed once it is there.
        names: of the lists of rows.

    Attributes:
        rows: the lists of rows so far.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        facts: Callable[..., Row],
        line: Callable[[Row], str],
        names: Sequence[str] = ("runs",),
    ) -> None:
        self.path = path
        self.rows: dict[str, list[Row]] = {name: stored_rows(path, name) for name in names}
        self._facts, self._line = facts, line

    @property
    def runs(self) -> list[Row]:
        """The rows of runs."""
        return self.rows["runs"]

    @property
    def facts(self) -> Row:
        """All that is stored."""
        return self._facts(**self.rows)

    def has(self, key: Row, *, name: str = "runs") -> bool:
        """Whether a run with these settings is there."""
        return any(key.items() <= row.items() for row in self.rows[name])

    def add(self, key: Row, run: Callable[..., Row], *arguments: Any, name: str = "runs") -> None:
        """Makes a run in this process, unless it is there: a row of its settings and of what it returns."""
        if not self.has(key, name=name):
            self._keep(key | run(*arguments), name)

    def add_all(self, asked: Iterable[Asked], *, jobs: int) -> None:
        """Makes all runs that are not there, in so many processes, which share the cores."""
        missing = [one for one in asked if not self.has(one[0])]
        context, threads = multiprocessing.get_context("spawn"), (threads_of(jobs),)
        with ProcessPoolExecutor(jobs, mp_context=context, initializer=_on_threads, initargs=threads) as pool:
            under_way = {pool.submit(run, *arguments): key for key, run, arguments in missing}
            for done in as_completed(under_way):
                self._keep(under_way[done] | done.result(), "runs")

    def store(self) -> None:
        """Writes all, with what follows from it."""
        store(self.path, self.facts)

    def _keep(self, row: Row, name: str) -> None:
        self.rows[name].append(row)
        print(self._line(row), flush=True)
        self.store()


def threads_of(jobs: int) -> int:
    """How many each of so many runs side by side has."""
    return max(1, (os.cpu_count() or 1) // jobs)


def _on_threads(count: int) -> None:
    import torch  # in the process that trains alone

    torch.set_num_threads(count)


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


def command_line(about: str | None, *, seeds: int, first_seed: int) -> argparse.ArgumentParser:
    """A parser with what all benchmarks on pairs ask for: which sets, which seeds, where to store."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="file of pairs of features")
    parser.add_argument("--functions", action="store_true", help="the Python functions on this machine")
    parser.add_argument("--seeds", type=int, default=seeds, help="how many")
    parser.add_argument("--first-seed", type=int, default=first_seed)
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    return parser


def parsed(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, dict[str, Callable[[], Split]], range]:
    """The options, what reads each set of pairs that was asked for, by its name in results, and the seeds."""
    options = parser.parse_args()
    readers: dict[str, Callable[[], Split]] = {}
    if options.pairs is not None:
        readers["pairs"] = lambda: load(f"pairs:{options.pairs}")
    if options.functions:
        readers["functions"] = lambda: load("functions")
    if not readers:
        parser.error("give --pairs FILE, --functions or both")
    return options, readers, range(options.first_seed, options.first_seed + options.seeds)


def config_by(name: str, overrides: Mapping[str, str]) -> Config:
    """The recipe of that name with some settings changed."""
    return config_of(with_overrides(recipe(name), overrides), source=f"recipe {name}")


def digest(config: Config) -> str:
    """A name for the settings of a run, wherever its data lie."""
    lines = [line for line in to_toml(config).splitlines() if not line.startswith(_NO_MATTER)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def measured_run(config: Config, split: Split | None = None) -> Row:
    """Top-1 at the end of a run and on the way, its steps, what its plans are like, and where its time went.

    How hard plans are: the mean loss of a plan over that of shuffled batches by the same embeddings, a geometric mean
    over plans. Their effective size is a median. Of the background: in how many steps of planned epochs one was asked
    for and drawn, and the mean over these steps of agreement and alignment; None where none was asked for.
    """
    with tempfile.TemporaryDirectory() as folder:
        with _timed_recording() as recording, _watched_background() as watched:
            result = train(config, Path(folder) / "run", split=split)
        text = (Path(folder) / "run" / "metrics.jsonl").read_text(encoding="utf-8")
    events = [json.loads(line) for line in text.splitlines()]
    plans = [event for event in events if event["event"] == "plan" and event.get("shuffled_loss")]
    ratios = [plan["mean_loss"] / plan["shuffled_loss"] for plan in plans]
    sizes = [size for plan in plans if (size := plan.get("effective_size", {}).get("size")) is not None]
    return {
        "steps": result.steps,
        "top1": result.scores["top1"],
        "curve": [(event["step"], event["top1"]) for event in events if event["event"] == "evaluation"],
        "hardness": statistics.geometric_mean(ratios) if ratios else 1.0,
        "effective_size": statistics.median(sizes) if sizes else None,
        "background": _told(watched),
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


@contextmanager
def _watched_background() -> Iterator[list[tuple[bool, float, float]]]:
    """Collects, of each step that asks for a background, whether it got one, and the cosines that decide it."""
    watched: list[tuple[bool, float, float]] = []

    def seen(bank: EmbeddingBank, *arguments: Any, **named: Any) -> Background | None:
        drawn = draw_background(bank, *arguments, **named)
        watched.append((drawn is not None, float(bank.agreement), float(bank.alignment)))
        return drawn

    with mock.patch.object(_sampler, "draw_background", seen):
        yield watched


def _told(watched: Sequence[tuple[bool, float, float]]) -> Row | None:
    if not watched:
        return None
    drawn, agreement, alignment = zip(*watched, strict=True)
    means = {"agreement": _known_mean(agreement), "alignment": _known_mean(alignment)}
    return {"asked": len(watched), "drawn": sum(drawn)} | means


def _known_mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return statistics.fmean(known) if known else None


def loop_seconds(row: Row) -> float:
    """Recording, planning and sampling count; evaluation and checkpoints do not."""
    return float(row["seconds"]["training"] + row["seconds"]["planning"])


def share_of_steps(row: Row, base: Row) -> float | None:
    """The share of its steps after which a run is as good as the shuffled one at its end; None if it never is."""
    return next((step / base["steps"] for step, top1 in row["curve"] if top1 >= base["top1"]), None)


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


def standard_error(values: Sequence[float]) -> float | None:
    """That of the mean; None of one value."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


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


def heads_of_scores() -> str:
    """The heads of `scores_of`."""
    names = (("seeds", 7), ("top-1", 9), ("spread", 9), ("gain", 9), ("spread", 9), ("seconds", 9))
    return "".join(f"{name:>{width}}" for name, width in names)


def scores_of(line: Row) -> str:
    """What `compared` gave, as the end of a line of a table."""
    scores = "".join(f"{percent(line[name]):>9}" for name in ("top1", "spread", "gain", "gain_spread"))
    seconds = "-" if line["seconds"] is None else f"{line['seconds']:.1f}"
    return f"{line['seeds']:7}{scores}{seconds:>9}"
