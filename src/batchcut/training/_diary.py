"""What a run tells while it goes on: lines of metrics and of seconds, and events for whoever watches."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._folder import Lines

Observer = Callable[[Mapping[str, Any]], None]

_FILES = ("metrics", "timings")
_PARTS = ("planning", "evaluation", "checkpoint")


class Diary:
    """Writes metrics.jsonl and timings.jsonl, from the process that leads, and tells an observer.

    Args:
        observe: called with each event.
        leads: whether this process is the one that writes; the others are silent.
    """

    def __init__(self, observe: Observer, *, leads: bool) -> None:
        self._observe = observe
        self._leads = leads
        self._lines: dict[str, Lines] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._begun: dict[str, float] = {}

    def open(self, folder: Path, lengths: Mapping[str, int] | None = None) -> None:
        """Opens the files, cut back to where they were at a checkpoint; None: to nothing."""
        for name in _FILES if self._leads else ():
            self._lines[name] = Lines(folder / f"{name}.jsonl", length=0 if lengths is None else lengths[name])

    def lengths(self) -> dict[str, int]:
        """How many bytes each file has, all of which are on the disk."""
        return {name: lines.sync() for name, lines in self._lines.items()}

    def close(self) -> None:
        """Closes the files."""
        for lines in self._lines.values():
            lines.close()

    def tell(self, event: dict[str, Any]) -> None:
        """Writes a line of metrics and tells the observer."""
        self.write(event)
        self.show(event)

    def write(self, event: dict[str, Any]) -> None:
        """Writes a line of metrics."""
        if self._leads:
            self._lines["metrics"].write(event)

    def show(self, event: dict[str, Any]) -> None:
        """Tells the observer."""
        if self._leads:
            self._observe(event)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Counts the seconds within as those of a part of the epoch."""
        self._begun[part] = time.perf_counter()
        yield
        self._seconds[part] += time.perf_counter() - self._begun.pop(part)

    def tell_seconds(self, *, epoch: int, step: int) -> None:
        """Writes where the seconds since the last such line went; what is in no part is training."""
        now = time.perf_counter()
        for part, begun in self._begun.items():
            self._seconds[part] += now - begun
            self._begun[part] = now
        parts = {name: round(self._seconds[name], 6) for name in _PARTS}
        training = self._seconds["total"] - sum(parts.values())
        if self._leads:
            event = {"event": "epoch", "epoch": epoch, "step": step, "training": round(training, 6)}
            self._lines["timings"].write(event | parts)
        self._seconds.clear()
