"""Trains, compares and reports."""

from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from batchcut._errors import check_integer
from batchcut._files import check_outside_runs, read_text
from batchcut._progress import silent
from batchcut.report import compare, read_run, write_report
from batchcut.selection import Cut, Ordered, Shuffle, Spectral
from batchcut.training import (
    Config,
    DataSettings,
    EvaluationSettings,
    KeepingSettings,
    ModelSettings,
    ObjectiveSettings,
    OptimizerSettings,
    SelectionSettings,
    ViewSettings,
    to_toml,
)

from ._workers import Job, Observer, run_jobs

METHODS = ("Shuffle", "Ordered", "Spectral", "Cut")
_BATCH_SIZE, _TEMPERATURE, _CANDIDATES, _POOL = 16, 0.1, 10, 40
_EPOCHS, _FEW_EPOCHS = 14, 3  # what two cores train in less than three minutes
_ALL, _FEW = 1280, 192  # 80 of the 89 whole batches that there are, so that pools of 40 come out even


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came out for a method.

    Attributes:
        method: the selector's name.
        top1: share of test samples that find their other view; the mean over seeds.
        spread: its standard deviation; not a number with one seed.
        steps: of a run.
        steps_to_shuffled: from which step on it is as good as shuffled batches in the end; None: never.
        planning: seconds a run spent planning.
        mean_loss: over the batches trained on.
    """

    method: str
    top1: float
    spread: float
    steps: int
    steps_to_shuffled: int | None
    planning: float
    mean_loss: float

    def as_dict(self) -> dict[str, Any]:
        """In plain values; None where there is no number."""
        return {name: None if value != value else value for name, value in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out of all.

    Attributes:
        rows: one a method.
        report: the page.
    """

    rows: tuple[Row, ...]
    report: Path


def demo_config(method: str, *, seed: int, quick: bool = False) -> Config:
    """The settings of a run; those of different methods differ in the selector alone.

    Ordered SGD keeps one of ten random batches at each step, so that it takes as many steps as the others; spectral
    clustering works in pools of 40 batches, as in the paper.
    """
    samples = _FEW if quick else _ALL
    selectors: dict[str, Shuffle | Ordered | Spectral | Cut] = {
        "Shuffle": Shuffle(temperature=_TEMPERATURE),
        "Ordered": Ordered(k=_CANDIDATES, replacement=True, steps=samples // _BATCH_SIZE, temperature=_TEMPERATURE),
        "Spectral": Spectral(pool=4 if quick else _POOL, temperature=_TEMPERATURE),
        "Cut": Cut(temperature=_TEMPERATURE),
    }
    return Config(
        seed=seed,
        epochs=_FEW_EPOCHS if quick else _EPOCHS,
        batch_size=_BATCH_SIZE,
        data=DataSettings(name="digits", train=samples, test=64 if quick else None),
        views=ViewSettings(smallest_crop=0.9),
        model=ModelSettings(encoder="small-resnet", width=4 if quick else 8, projection=64, dim=32),
        objective=ObjectiveSettings(loss="simclr", temperature=_TEMPERATURE),
        selection=SelectionSettings(selector=selectors[method]),
        optimizer=OptimizerSettings(name="adamw", learning_rate=0.003, weight_decay=1e-4),
        evaluation=EvaluationSettings(draws=2),
        keeping=KeepingSettings(checkpoint_epochs=4, checkpoints=1),
    )


def run_demo(
    out: str | Path,
    *,
    seeds: int = 3,
    quick: bool = False,
    workers: int | None = None,
    observe: Observer | None = None,
) -> Outcome:
    """Trains each method from each seed, as far as that is not done, and writes a report.

    Args:
        out: the folder for the runs and the report.
        seeds: how many runs a method has.
        quick: only a few steps.
        workers: how many runs are under way at a time; None: one for each two processors, at least two.
        observe: called as runs begin, move on and end.
    """
    check_integer("seeds", seeds, at_least=1)
    folder = Path(out)
    check_outside_runs("out", folder)
    jobs = [
        Job(
            method=method,
            seed=seed,
            config=demo_config(method, seed=seed, quick=quick),
            run=folder / f"{method.lower()}-{seed}",
        )
        for seed in range(seeds)
        for method in METHODS
    ]
    for job in jobs:
        _check_same_settings(job)
    folder.mkdir(parents=True, exist_ok=True)
    if not all(job.done for job in jobs):
        _compile(demo_config("Cut", seed=0, quick=quick), _FEW if quick else _ALL, observe or silent)
    run_jobs(jobs, workers=workers, observe=observe or silent)
    comparison = compare([read_run(job.run) for job in jobs])
    rows = []
    for group in comparison.groups:
        reached = comparison.steps_to_baseline(group)
        row = Row(
            method=group.label,
            top1=group.top1,
            spread=group.spread,
            steps=group.steps,
            steps_to_shuffled=reached,
            planning=group.seconds("planning"),
            mean_loss=group.mean_loss,
        )
        rows.append(row)
    report = write_report([job.run for job in jobs], folder / "report.html", title="batchcut demo")
    return Outcome(rows=tuple(rows), report=report)


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
