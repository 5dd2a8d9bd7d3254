"""Trains, compares, reports, and answers questions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from batchcut._errors import check_choice, check_integer, invalid
from batchcut._files import check_outside_runs, read_text
from batchcut._progress import silent
from batchcut.data import load, load_functions
from batchcut.report import (
    Answer,
    Comparison,
    Gain,
    SearchIndex,
    check_question,
    compare,
    finding,
    read_run,
    read_search,
    write_report,
    write_search,
)
from batchcut.training import Config, to_toml

from ._search import search_index
from ._settings import DATA, FIRST_SEED, METHODS, DemoData, demo_config
from ._workers import Job, Observer, run_jobs

_SHUFFLED, _PLANNED = "Shuffle", "Cut"


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came out for a method.

    Attributes:
        method: the selector's name.
        top1: share of test samples that find their other view; the mean over seeds.
        spread: its standard deviation; not a number with one seed.
        gain: over shuffled batches; None for these themselves.
        steps: of a run.
        steps_to_shuffled: from which step on it is as good as shuffled batches in the end; None: never.
        effective_size: the effective batch size of the last plan; of shuffled batches their own.
        seconds: a run took, planning included.
        planning: seconds a run spent planning.
    """

    method: str
    top1: float
    spread: float
    gain: Gain | None
    steps: int
    steps_to_shuffled: int | None
    effective_size: float
    seconds: float
    planning: float


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question and what was found.

    Attributes:
        question: as it was asked.
        answers: by shuffled and by planned batches, of the first seed; best first.
        places: of the function whose docstring begins so, if there is one: the first is 1.
    """

    question: str
    answers: Mapping[str, tuple[Answer, ...]]
    places: Mapping[str, int]

    def as_dict(self) -> dict[str, Any]:
        """In plain values."""
        found = {label: [asdict(answer) for answer in answers] for label, answers in self.answers.items()}
        return {"question": self.question, "answers": found, "places": dict(self.places)}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out of all.

    Attributes:
        rows: one a method.
        finding: which method is ahead, by how much, and how sure that is, in words.
        asked: questions and answers; none on digits.
        searched: how often planned batches find a function nearer than shuffled ones, in words; nothing on digits.
        report: the page.
        trained: whether anything was left to train.
    """

    rows: tuple[Row, ...]
    finding: str
    asked: tuple[Asked, ...]
    searched: str
    report: Path
    trained: bool

    def as_dict(self) -> dict[str, Any]:
        """In plain values."""
        return {
            "methods": [asdict(row) for row in self.rows],
            "finding": self.finding,
            "asked": [asked.as_dict() for asked in self.asked],
            "searched": self.searched,
            "report": str(self.report),
        }


def run_demo(
    out: str | Path,
    *,
    data: DemoData = "functions",
    seeds: int = 3,
    quick: bool = False,
    ask: Sequence[str] = (),
    workers: int | None = None,
    observe: Observer | None = None,
) -> Outcome:
    """Trains each method from each seed, as far as that is not done, writes a report, and answers questions.

    Args:
        out: the folder for the runs and the report.
        data: "functions" or "digits".
        seeds: how many runs a method has.
        quick: only a few steps.
        ask: what functions should do; none: what a few of the test part do. Where questions are asked and all runs
            are finished, the report that is there is left as it is.
        workers: how many runs are under way at a time; None: one for each two processors, at least two.
        observe: called as runs begin, move on and end.
    """
    check_choice("data", data, DATA)
    check_integer("seeds", seeds, at_least=1)
    _check_questions(ask, data)
    folder = Path(out)
    check_outside_runs("out", folder)
    jobs = _jobs(folder, data=data, seeds=seeds, quick=quick)
    for job in jobs:
        _check_same_settings(job)
    folder.mkdir(parents=True, exist_ok=True)
    finished = all(job.done for job in jobs)
    if not finished:
        _train(jobs, workers, observe or silent)
    comparison = compare([read_run(job.run) for job in jobs])
    report, index = folder / "report.html", folder / "search.json"
    if not (finished and ask and report.is_file() and index.is_file()):
        _write(jobs, report, index, observe or silent)
    search = read_search(index) if data == "functions" else None
    return Outcome(
        rows=_rows(comparison),
        finding=finding(comparison),
        asked=() if search is None else _asked(search, ask),
        searched="" if search is None else search.verdict,
        report=report,
        trained=not finished,
    )


def _check_questions(ask: Sequence[str], data: DemoData) -> None:
    if ask and data != "functions":
        raise invalid("ask", "be left alone unless the data are functions, which can be searched", repr(ask[0]))
    for question in ask:
        check_question("ask", question)


def _jobs(folder: Path, *, data: DemoData, seeds: int, quick: bool) -> list[Job]:
    return [
        Job(
            method=method,
            seed=seed,
            config=demo_config(method, seed=seed, data=data, quick=quick),
            run=folder / f"{method.lower()}-{seed}",
        )
        for seed in range(FIRST_SEED[data], FIRST_SEED[data] + seeds)
        for method in METHODS
    ]


def _train(jobs: Sequence[Job], workers: int | None, observe: Observer) -> None:
    """Reads the data once, for all runs, and takes these to their end."""
    config = next(job.config for job in jobs if job.method == _PLANNED)
    observe({"event": "reads", "name": config.data.name})
    split = load(config.data.name)
    observe({"event": "read"})
    _check_same_data(jobs, split.train.name)
    there, needed = len(split.train), config.data.train or 0
    if there < needed:  # fewer steps than `Ordered` was told to take, which would make it another race
        raise ValueError(f"the demo needs {needed:,} {config.data.name} to learn from; got {there:,}")
    _compile(config, needed, observe)
    run_jobs(jobs, split, workers=workers, observe=observe)


def _write(jobs: Sequence[Job], report: Path, index: Path, observe: Observer) -> None:
    """Writes the report; of functions with an index to search in, which is also kept beside it."""
    search: SearchIndex | None = None
    if jobs[0].config.data.name == "functions":
        observe({"event": "reads", "name": "functions"})
        first = {job.method: job.run for job in jobs if job.seed == jobs[0].seed}
        runs = {method: first[method] for method in (_SHUFFLED, _PLANNED)}
        functions = load_functions()
        _check_same_data(jobs, functions.split.train.name)
        search = search_index(functions, runs, learnt=jobs[0].config.data.train or 0)
        write_search(search, index)
        observe({"event": "read"})
    write_report([job.run for job in jobs], report, title="batchcut demo", search=search)


def _rows(comparison: Comparison) -> tuple[Row, ...]:
    return tuple(
        Row(
            method=group.label,
            top1=group.top1,
            spread=group.spread,
            gain=comparison.gain(group),
            steps=group.steps,
            steps_to_shuffled=comparison.steps_to_baseline(group),
            effective_size=group.effective_size,
            seconds=group.seconds("planning") + group.seconds("training"),
            planning=group.seconds("planning"),
        )
        for group in comparison.groups
    )


def _asked(index: SearchIndex, questions: Sequence[str]) -> tuple[Asked, ...]:
    return tuple(
        Asked(question=question, answers=index.answers(question), places=index.places(question))
        for question in questions or index.questions
    )


def _compile(config: Config, samples: int, observe: Observer) -> None:
    """Plans once for nothing, so that the first run's planning is not what Numba takes on a new machine."""
    observe({"event": "compiles"})
    u, v = np.random.default_rng(0).standard_normal((2, samples, config.model.dim), np.float32)
    config.selection.selector(u, v, batch_size=config.batch_size).measured(u, v)
    observe({"event": "compiled"})


def _check_same_settings(job: Job) -> None:
    """That a run which is there already is one of this demo."""
    path = job.run / "config.toml"
    here = to_toml(job.config)
    there = read_text(path, "be TOML") if path.is_file() else here
    if there != here:
        lines = zip_longest(there.splitlines(), here.splitlines(), fillvalue="nothing")
        old, new = next((pair for pair in lines if pair[0] != pair[1]), ("other line ends", "newlines"))
        raise ValueError(
            f"{job.run} holds a run with other settings ({old} there, {new} here); "
            "remove it, or choose another folder with --out"
        )


def _check_same_data(jobs: Sequence[Job], data: str) -> None:
    """That the runs which are there have learnt from what is on this machine now: models know its features alone."""
    for job in jobs:
        starts = read_run(job.run).starts if (job.run / "config.toml").is_file() else []
        there = starts[0].get("data") if starts else None
        if there not in (None, data):
            raise ValueError(
                f"{job.run} holds a run on other data ({there} there, {data} on this machine now, since libraries have "
                "changed); remove the folder, or choose another with --out"
            )
