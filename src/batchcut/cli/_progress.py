"""How progress is shown, on the error stream; loaded by the verbs that show any."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def counting_progress(*, hidden: bool) -> Progress:
    """A bar that counts steps; it goes away when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return _passing(*columns, hidden=hidden)


def share_progress(*, hidden: bool) -> Progress:
    """A bar of the share of the work that is done, with the time left; it goes away when the work is done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return _passing(*columns, hidden=hidden)


def _passing(*columns: ProgressColumn, hidden: bool) -> Progress:
    """Where the error stream is no terminal, Rich would leave an empty line of a bar that goes away."""
    errors = Console(stderr=True)
    return Progress(*columns, console=errors, transient=True, disable=hidden or not errors.is_terminal)


class Watcher:
    """What `batchcut train` shows while it goes on: bars on a terminal, lines for evaluations and files.

    Bars appear with the first event, so that a process that gets none, as all but one of many do, shows none.
    """

    def __init__(self, *, hidden: bool) -> None:
        self._console = Console(stderr=True)
        self._hidden = hidden
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=hidden or not self._console.is_terminal,
        )
        self._training: TaskID | None = None
        self._fetching: dict[str, TaskID] = {}
        self._loss = ""

    def __enter__(self) -> "Watcher":
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
        elif kind == "step":
            self._loss = f"loss {event['loss']:.3f}"
        elif kind == "evaluation":
            scores = f"top-1 {event['top1']:.1%}, top-5 {event['top5']:.1%}, MRR {event['mrr']:.4f}"
            place = f"epoch {event['epoch']}, step {event['step']}"
            self._line(f"{place}: {', '.join(filter(None, [self._loss, scores]))}")

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
            self._line(f"fetching {name}, {total / 1e6:,.1f} MB")
        amount = f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
        self._bar.update(self._fetching[name], completed=done, amount=amount, visible=done < total)

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


class DemoWatcher:
    """What `batchcut demo` shows: a bar over the steps of all runs on a terminal, a line a finished run elsewhere."""

    def __init__(self, *, hidden: bool) -> None:
        self._console, self._hidden = Console(stderr=True), hidden
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[scores]}"),
            TimeElapsedColumn(),
        )
        quiet = hidden or not self._console.is_terminal
        self._bar = Progress(*columns, console=self._console, transient=True, disable=quiet)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "DemoWatcher":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Shows an event: of a run, which names its method and seed, or of what goes before."""
        kind, method = event["event"], str(event.get("method", "Compiling, once on a machine"))
        if kind == "compiles":
            self._tasks[method] = self._bar.add_task(method, total=None, scores="")
        elif kind == "compiled":
            self._bar.remove_task(self._tasks.pop(method))
        elif kind == "begins":
            self._tasks[method] = self._bar.add_task(f"{method:<9}", total=event["steps"], scores="")
        elif kind == "progress":
            self._bar.update(self._tasks[method], advance=event["advance"])
        elif kind == "done":
            self._bar.update(self._tasks[method], scores=f"last top-1 {event['top1']:.1%}")
            if not (self._hidden or self._console.is_terminal):
                words = f"{method}, seed {event['seed']}: top-1 {event['top1']:.1%}"
                self._console.print(f"{words} ({event['number']} of {event['count']})", highlight=False)
