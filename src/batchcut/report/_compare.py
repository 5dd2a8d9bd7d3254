"""Runs that differ in their seed alone belong together; what they say about their method."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._gain import Gain, gain_over
from ._labels import Task, labels_of, task_names, task_of
from ._run import Array, Run, Tree

_ORDER = ("Shuffle", "Ordered", "Spectral", "Cut")
_BASELINE = "Shuffle"
_POINTS = 40
_NOT_OF_THE_MODEL = ("seed", "selection.", "data.", "views.", "evaluation.", "keeping.", "machine.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Means over seeds at steps: (n,), with the lowest and the highest seed."""

    steps: Array
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Runs that differ in their seed alone.

    Attributes:
        label: the method, and what else sets the group apart.
        runs: by seed.
        place: among all groups, by which it is drawn.
    """

    label: str
    runs: tuple[Run, ...]
    place: int = 0

    @property
    def method(self) -> str:
        """The name of the selector."""
        return self.runs[0].method

    @property
    def finished(self) -> tuple[Run, ...]:
        """The runs that are finished, which alone can be compared."""
        return tuple(run for run in self.runs if run.result is not None)

    @property
    def scores(self) -> dict[int, float]:
        """The last top-1 accuracy of each run that is finished, by seed."""
        found = {run.seed: run.events("evaluation") for run in self.finished}
        return {seed: float(events[-1]["top1"]) for seed, events in found.items() if events}

    @property
    def finals(self) -> list[float]:
        """The same without the seeds."""
        return list(self.scores.values())

    @property
    def top1(self) -> float:
        """The mean of the last accuracies; not a number where there is none."""
        return statistics.fmean(self.finals) if self.finals else float("nan")

    @property
    def spread(self) -> float:
        """Their standard deviation; not a number with a single seed."""
        return statistics.stdev(self.finals) if len(self.finals) > 1 else float("nan")

    @property
    def steps(self) -> int:
        """How many steps the longest run has taken."""
        return max((int(event["step"]) for run in self.runs for event in run.metrics if "step" in event), default=0)

    @property
    def planned_losses(self) -> tuple[float, float] | None:
        """The mean loss of batches as they were planned, and of shuffled ones by the same embeddings; over plans."""
        events = [e for run in self.runs for e in run.events("plan") if e.get("shuffled_loss") and "mean_loss" in e]
        if not events:
            return None
        planned, shuffled = (statistics.fmean(e[name] for e in events) for name in ("mean_loss", "shuffled_loss"))
        return planned, shuffled

    @property
    def effective_size(self) -> float:
        """The effective batch size of the last plan, the mean over runs; the batch size where nothing is planned."""
        last = [sizes[-1] for _, sizes in map(_effective_sizes, self.runs) if len(sizes)]
        return statistics.fmean(last) if last else float("nan")

    def effective_sizes(self) -> Curve:
        """The effective batch size against the epoch, counted from 1."""
        return _curve([_effective_sizes(run) for run in self.runs])

    def seconds(self, part: str) -> float:
        """The seconds of a run that went into "planning", "training", "evaluation" or "checkpoint"; the mean."""
        runs = self.finished or self.runs
        return statistics.fmean(sum(float(line.get(part, 0)) for line in run.timings) for run in runs)

    def accuracy(self) -> Curve:
        """Top-1 accuracy against the step."""
        return _curve([_series(run, "evaluation", "top1") for run in self.runs])

    def loss(self) -> Curve:
        """The loss of the batches trained on against the step, in at most 40 parts."""
        series = [_batch_losses(run) for run in self.runs]
        size = -(-max(len(losses) for _, losses in series) // _POINTS)
        return _curve([_binned(steps, losses, size) for steps, losses in series])


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """All groups, the shuffled one first; task by task, where there are several.

    Attributes:
        groups: in the order in which they are shown.
        task: the data and the test, where there are others beside; else empty.
    """

    groups: tuple[Group, ...]
    task: str = ""

    @property
    def tasks(self) -> "tuple[Comparison, ...]":
        """The groups that learn from the same data for the same test: no others can be ranked."""
        found: dict[Task, list[Group]] = {}
        for group in self.groups:
            found.setdefault(task_of(group.runs[0]), []).append(group)
        names = task_names(list(found))
        return tuple(
            Comparison(groups=tuple(part), task=name) for part, name in zip(found.values(), names, strict=True)
        )

    def baseline(self, group: Group) -> Group | None:
        """The shuffled group to compare with: that which differs in the batches alone, or the only one; else None."""
        shuffled = [one for one in self.groups if one.method == _BASELINE]
        alike = [one for one in shuffled if not differences(one, group)]
        found = alike or shuffled
        return found[0] if len(found) == 1 else None

    def gain(self, group: Group) -> Gain | None:
        """How far the group ends above shuffled batches; None where there is nothing to compare."""
        base = self.baseline(group)
        return None if base is None or base is group else gain_over(group.scores, base.scores)

    def steps_to_baseline(self, group: Group) -> int | None:
        """The first scored step from which on the group's mean accuracy stays no lower than shuffled batches' last."""
        base = self.baseline(group)
        if base is None or not base.scores:
            return None
        curve = group.accuracy()
        reached = curve.mean >= base.top1 - 1e-12
        below = np.flatnonzero(~reached)
        first = int(below[-1]) + 1 if len(below) else 0
        return int(curve.steps[first]) if first < len(reached) else None


def differences(one: Group, other: Group) -> list[str]:
    """The settings of the encoder and its training in which two groups differ, beside how batches are chosen."""
    first, second = (flattened(group.runs[0].config) for group in (one, other))
    names = [name for name in first | second if not name.startswith(_NOT_OF_THE_MODEL)]
    return [name for name in names if first.get(name) != second.get(name)]


def compare(runs: Sequence[Run]) -> Comparison:
    """Puts runs that differ in their seed alone together and labels the groups by what sets them apart."""
    families: dict[tuple[tuple[str, str], ...], list[Run]] = {}
    for run in runs:
        flat = flattened(run.config)
        flat.pop("seed", None)
        facts = [("", task_of(run)), *((name, repr(value)) for name, value in flat.items())]
        families.setdefault(tuple(sorted((name, str(fact)) for name, fact in facts)), []).append(run)
    settings = [dict(key) for key in families]
    members = [tuple(sorted(family, key=lambda run: run.seed)) for family in families.values()]
    tasks = list(dict.fromkeys(task_of(family[0]) for family in members))
    names = dict(zip(tasks, task_names(tasks), strict=True))
    kinds = [", ".join(filter(None, (family[0].method, names[task_of(family[0])]))) for family in members]
    labels = labels_of(kinds, settings)
    order = sorted(
        range(len(members)), key=lambda at: (tasks.index(task_of(members[at][0])), _rank(members[at][0], labels[at]))
    )
    groups = [Group(label=labels[at], runs=members[at], place=place) for place, at in enumerate(order)]
    return Comparison(groups=tuple(groups))


def flattened(tree: Tree, prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= flattened(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _rank(run: Run, label: str) -> tuple[int, str]:
    return _ORDER.index(run.method) if run.method in _ORDER else len(_ORDER), label


def _series(run: Run, kind: str, name: str) -> tuple[Array, Array]:
    events = run.events(kind)
    return np.array([e["step"] for e in events], np.int64), np.array([e[name] for e in events], np.float64)


def _effective_sizes(run: Run) -> tuple[Array, Array]:
    """Epochs, counted from 1, and effective sizes of their plans; that of random batches is their own."""
    found = {}
    for event in run.events("plan"):
        known = {"size": run.batch_size} if event.get("method") == _BASELINE else event.get("effective_size") or {}
        if known.get("size") is not None:
            found[int(event["epoch"]) + 1] = float(known["size"])
    return np.array(list(found), np.int64), np.array(list(found.values()), np.float64)


def _batch_losses(run: Run) -> tuple[Array, Array]:
    """Steps and losses of single batches; of the means that were logged where those are not there."""
    parts = run.losses_by_epoch()
    if not parts:
        return _series(run, "step", "loss")
    losses = np.concatenate([parts[epoch] for epoch in sorted(parts)])
    last = run.events("losses")[-1]["step"]
    return np.linspace(last / len(losses), last, len(losses)).round().astype(np.int64), losses


def _binned(steps: Array, values: Array, size: int) -> tuple[Array, Array]:
    """Means of so many values in a row, the last of what is left, at the step of each last one."""
    parts = [np.arange(start, min(start + size, len(values))) for start in range(0, len(values), max(1, size))]
    return np.array([steps[p[-1]] for p in parts]), np.array([values[p].mean() for p in parts])


def _curve(series: list[tuple[Array, Array]]) -> Curve:
    """The mean of several series at the steps that all of them have."""
    series = [one for one in series if len(one[0])]
    if not series:
        empty = np.empty(0)
        return Curve(steps=empty, mean=empty, low=empty, high=empty)
    steps = sorted(set.intersection(*(set(steps.tolist()) for steps, _ in series)))
    if not steps:
        return _curve(series[:1])
    values = np.array([[dict(zip(at.tolist(), of.tolist(), strict=True))[s] for s in steps] for at, of in series])
    reduced: list[Callable[..., Array]] = [np.mean, np.min, np.max]
    mean, low, high = (f(values, axis=0) for f in reduced)
    return Curve(steps=np.array(steps), mean=mean, low=low, high=high)
