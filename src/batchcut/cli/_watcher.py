"""What `batchcut train` shows while it goes on."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Watcher:
    """Shows bars on a terminal, and one line for each evaluation and file fetched; on the error stream.

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
