"""How progress is shown, on the error stream; loaded by the verbs that show any."""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

_FIRST_PAUSE, _SECOND_PAUSE, _LONGEST_PAUSE = 1.0, 10.0, 600.0
_ENOUGH_PERCENT, _ENOUGH_SECONDS = 5, 60
"""Of work to tell how much time is left: its parts take more or less than their share of the work says."""
_BEFORE_THE_RUNS = {
    "reads": "Reading {name}",
    "compiles": "Compiling, once on a machine",
    "starts": "Starting {count} processes",
}
_ALL = "all runs"
_UNITS = (("days", 86_400), ("h", 3_600), ("min", 60))


class Shown(Progress):
    """Bars that go away when the work is done; where no bar can be redrawn, as in a log, a plain line now and then.

    A thread writes the lines, so that they come however long the work tells nothing; none of work that takes a second.
    """

    def __init__(self, *columns: ProgressColumn, hidden: bool) -> None:
        errors = Console(stderr=True)
        super().__init__(
            *columns,
            console=errors,
            transient=True,
            disable=hidden or not errors.is_interactive,
            speed_estimate_period=_LONGEST_PAUSE,  # work may tell little: Rich would forget what is half a minute old
        )
        self._in_lines = self.disable and not hidden
        self._ended = threading.Event()
        self._teller = threading.Thread(target=self._tell, daemon=True)

    def start(self) -> None:
        """Shows what is done from now on; once is enough."""
        super().start()
        if self._in_lines and self._teller.ident is None:
            self._teller.start()

    def stop(self) -> None:
        """Shows no more."""
        self._ended.set()
        if self._teller.is_alive():
            self._teller.join()
        super().stop()

    def line(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _tell(self) -> None:
        begun = time.monotonic()
        for pause in pauses():
            if self._ended.wait(pause):
                return
            self.line(told(self.tasks, time.monotonic() - begun))


def pauses() -> Iterator[float]:
    """The seconds before each line: soon a first one, then ever fewer."""
    yield _FIRST_PAUSE
    pause = _SECOND_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def told(tasks: list[Task], seconds: float) -> str:
    """A line on the task that is worked on: its share of the work, how long it took, and will take at this pace."""
    task = next((task for task in reversed(tasks) if not task.finished), None)
    parts = [f"{duration(seconds)} so far"]
    if task is not None and task.total and task.completed:
        parts.insert(0, f"{task.percentage:.0f} %" if task.percentage >= 1 else "less than 1 %")
        if task.time_remaining and _tells_time(task, seconds):
            parts.append(f"about {duration(task.time_remaining)} left")
    return f"{(task and task.description.strip()) or 'at work'}: {', '.join(parts)}"


def _tells_time(task: Task, seconds: float) -> bool:
    return task.percentage >= _ENOUGH_PERCENT or seconds >= _ENOUGH_SECONDS


class TimeLeft(TimeRemainingColumn):
    """The time left, as soon as enough is done to tell it: one that is far off is worse than none."""

    def render(self, task: Task) -> Text:
        """Nothing, or hours, minutes and seconds."""
        return super().render(task) if _tells_time(task, task.elapsed or 0.0) else Text("")


def duration(seconds: float) -> str:
    """Seconds in words, to two digits or so."""
    name, unit = next(((name, unit) for name, unit in _UNITS if seconds >= 2 * unit), ("s", 1))
    return f"{seconds / unit:,.0f} {name}"


def counting_progress(*, hidden: bool) -> Shown:
    """A bar that counts steps."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Shown(*columns, hidden=hidden)


def share_progress(*, hidden: bool) -> Shown:
    """A bar of the share of the work that is done, with the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeLeft(),
    )
    return Shown(*columns, hidden=hidden)


class Watcher:
    """What `batchcut train` shows while it goes on: bars on a terminal, lines for evaluations and files.

    Of many processes the one that gets events shows them; before the first, the one that leads says that it works.
    As soon as the data are read, `opening` is said, and what was done to make images of one size.
    """

    def __init__(self, *, hidden: bool, opening: str = "") -> None:
        self._hidden, self._opening = hidden, opening
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"))
        self._bar = Shown(*columns, TimeLeft(), hidden=hidden)
        self._training: TaskID | None = None
        self._fetching: dict[str, TaskID] = {}
        self._loss = self._worth = ""

    def __enter__(self) -> "Watcher":
        if all(os.environ.get(rank, "0") == "0" for rank in ("RANK", "LOCAL_RANK")):
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Shows an event of a run."""
        if self._hidden:
            return
        self._bar.start()
        kind = event["event"]
        if kind == "progress":
            self._progress(event)
        elif kind == "fetch":
            self._fetch(event["name"], event["done"], event["total"])
        elif kind == "data":
            for text in filter(None, (self._opening, event["note"])):
                self._bar.line(text)
        elif kind == "step":
            self._loss = f"loss {event['loss']:.3f}"
        elif kind == "plan":
            size = (event.get("effective_size") or {}).get("size")
            self._worth = "" if size is None else f"effective batch size {size:,.0f}"
        elif kind == "evaluation":
            scores = f"top-1 {event['top1']:.1%}, top-5 {event['top5']:.1%}, MRR {event['mrr']:.4f}"
            place = f"epoch {event['epoch']}, step {event['step']}"
            self._bar.line(f"{place}: {', '.join(filter(None, [self._loss, scores, self._worth]))}")

    def _progress(self, event: Mapping[str, Any]) -> None:
        step, steps = event["step"], event["steps"]
        if self._training is None:
            # The steps before the first one seen were taken before, by a run that is gone on with: no measure of speed.
            self._training = self._bar.add_task("", total=steps, completed=step, amount="")
        task = next(task for task in self._bar.tasks if task.id == self._training)
        speed = "" if task.speed is None else f", {task.speed:.3g} steps/s"
        description = f"epoch {event['epoch'] + 1} {self._loss}".rstrip()
        self._bar.update(
            self._training, completed=step, description=description, amount=f"{step:,} of {steps:,} steps{speed}"
        )

    def _fetch(self, name: str, done: int, total: int) -> None:
        if name not in self._fetching:
            self._fetching[name] = self._bar.add_task(f"fetching {name}", total=total, completed=done, amount="")
            self._bar.line(f"fetching {name}, {total / 1e6:,.1f} MB")
        amount = f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
        self._bar.update(self._fetching[name], completed=done, amount=amount, visible=done < total)


class DemoWatcher:
    """What `batchcut demo` shows: on a terminal a bar over all runs and one for each method; else a line a run."""

    def __init__(self, *, hidden: bool) -> None:
        self._hidden = hidden
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[scores]}"), TimeLeft())
        self._bar = Shown(*columns, hidden=hidden)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "DemoWatcher":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Shows an event: of a run, which names its method and seed, or of what goes before and after."""
        kind = event["event"]
        if kind in _BEFORE_THE_RUNS:
            words = _BEFORE_THE_RUNS[kind].format(**event)
            self._tasks[""] = self._bar.add_task(words, total=None, scores="")
        elif kind in ("read", "compiled", "begin"):
            self._bar.remove_task(self._tasks.pop(""))
        if kind == "begin":
            totals = event["steps"] | {_ALL: sum(event["steps"].values())}  # the last, of which lines are told
            self._tasks = {name: self._bar.add_task(name, total=total, scores="") for name, total in totals.items()}
        elif kind == "progress":
            for name in (event["method"], _ALL):
                self._bar.update(self._tasks[name], advance=event["advance"])
        elif kind == "done":
            self._bar.update(self._tasks[event["method"]], scores=f"last top-1 {event['top1']:.1%}")
            self._bar.update(self._tasks[_ALL], scores=f"{event['number']} of {event['count']} runs")
            if self._bar.disable and not self._hidden:
                words = f"{event['method']}, seed {event['seed']}: top-1 {event['top1']:.1%}"
                self._bar.line(f"{words} ({event['number']} of {event['count']})")
