"""What a run's folder holds, read as it is: nothing of it is trusted to be complete."""

import shlex
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchcut._files import json_of, read_json, read_text, reading
from batchcut.selection import BatchPlan

Event = dict[str, Any]
Tree = dict[str, Any]
Array = NDArray[Any]


_SETTINGS: dict[str, Any] = {
    "seed": int,
    "batch_size": int,
    "objective.temperature": int | float,
    "selection.selector.method": str,
    "data.name": str,
    "data.root": str,
    "data.train": int,
}
"""What a report reads of the settings, and of which kind it is."""

_NEEDED = {
    "step": ("step", "loss"),
    "evaluation": ("step", "top1"),
    "losses": ("epoch", "step", "losses"),
    "plan": ("epoch",),
}
"""What there is in each kind of event."""

_NUMBERS = {"epoch", "step", "loss", "losses", "top1", "mean_loss", "shuffled_loss"}
_NUMBERS |= {"training", "planning", "evaluation", "checkpoint"}
_LARGEST = 2**53


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A run, finished or not.

    Attributes:
        path: its folder.
        config: all its settings, as tables.
        config_text: the same as it was written.
        starts: what each start of it ran on; the first has the command.
        metrics: the lines of metrics.jsonl.
        timings: the lines of timings.jsonl, one or more an epoch.
        result: what result.json says; None where the run is not finished.
    """

    path: Path
    config: Tree
    config_text: str
    starts: list[Event]
    metrics: list[Event]
    timings: list[Event]
    result: Event | None

    @property
    def seed(self) -> int:
        """The seed of all its randomness."""
        return int(self.config.get("seed", 0))

    @property
    def method(self) -> str:
        """The name of the selector, such as "Cut"."""
        selector = self.config.get("selection", {}).get("selector", {})
        name = str(selector.get("method", "cut"))
        return name.rpartition(":")[2] if ":" in name else name.capitalize()

    @property
    def batch_size(self) -> int:
        """B."""
        return int(self.config.get("batch_size", 32))

    @property
    def temperature(self) -> float:
        """τ of the loss."""
        return float(self.config.get("objective", {}).get("temperature", 0.1))

    @property
    def command(self) -> str:
        """The command that began it."""
        words = [str(word) for word in self.starts[0].get("command", [])] if self.starts else []
        if not words:
            return "unknown"
        program = Path(words[0]).name
        return shlex.join((["python", "-m", "batchcut"] if program == "__main__.py" else [program]) + words[1:])

    @property
    def again(self) -> str:
        """The command that does the same again, from the folder in which the report is made."""
        return shlex.join(["batchcut", "train", "--config", str(self.path / "config.toml")])

    def events(self, kind: str) -> list[Event]:
        """The metrics of one kind: "step", "evaluation", "plan" or "losses"."""
        return [event for event in self.metrics if event.get("event") == kind]

    def losses_by_epoch(self) -> dict[int, Array]:
        """The loss of each batch as it was trained on, by epoch."""
        return {int(e["epoch"]): np.asarray(e["losses"], np.float64) for e in self.events("losses")}

    def plans(self) -> Iterator[BatchPlan]:
        """The plans, in the order of their epochs, one at a time."""
        for path in sorted((self.path / "plans").glob("epoch-*.npz")):
            yield BatchPlan.load(path)

    def plan(self, epoch: int) -> BatchPlan | None:
        """The plan of an epoch; None where there is none."""
        path = self.path / "plans" / f"epoch-{epoch:04d}.npz"
        return BatchPlan.load(path) if path.is_file() else None

    def embeddings(self, name: str) -> dict[str, Array] | None:
        """The arrays of embeddings/NAME.safetensors; None where there is no such file."""
        from safetensors.numpy import load

        path = self.path / "embeddings" / f"{name}.safetensors"
        if not path.is_file():
            return None
        with self.reading_embeddings(name):
            return dict(load(path.read_bytes()))

    def reading_embeddings(self, name: str) -> AbstractContextManager[None]:
        """Makes what does not fit together in embeddings/NAME.safetensors an error of that file."""
        path = self.path / "embeddings" / f"{name}.safetensors"
        return reading(path, "be a file of embeddings of this run, undamaged", found="")


def find_runs(places: Iterable[str | Path]) -> list[Path]:
    """The folders of runs among the places, each a run or a folder of runs, in order and each once."""
    found: dict[Path, None] = {}
    for place in map(Path, places):
        if (place / "config.toml").is_file():
            found[place] = None
            continue
        inside = sorted(path.parent for path in place.glob("*/config.toml")) if place.is_dir() else []
        if not inside:
            what = "has no config.toml" if place.is_dir() else "is a file" if place.exists() else "is not there"
            raise ValueError(f"RUN must be the folder of a run, or a folder of such; {place} {what}")
        found |= dict.fromkeys(inside)
    return list(found)


def read_run(path: str | Path) -> Run:
    """Reads the folder of a run."""
    folder = Path(path)
    settings = folder / "config.toml"
    if not settings.is_file():
        raise ValueError(f"RUN must be the folder of a run; {folder} has no config.toml")
    text = read_text(settings, "be TOML")
    with reading(settings, "be TOML", found=""):
        config = tomllib.loads(text)
    with reading(settings, "hold the settings of a run", found=""):
        _check_config(config)
    return Run(
        path=folder,
        config=config,
        config_text=text,
        starts=_starts(folder / "environment.json"),
        metrics=_lines(folder / "metrics.jsonl"),
        timings=_lines(folder / "timings.jsonl"),
        result=_object(folder / "result.json"),
    )


def read_runs(places: Sequence[str | Path]) -> list[Run]:
    """Reads all runs in the places."""
    return [read_run(path) for path in find_runs(places)]


def _check_config(config: Tree) -> None:
    """Refuses settings of another kind than those that a report reads."""
    for path, kind in _SETTINGS.items():
        table: Any = config
        *groups, name = path.split(".")
        for group in groups:
            table = table.get(group, {})
            if not isinstance(table, dict):
                raise TypeError(f"{group} = {table!r}, which is no table")
        value = table.get(name)
        if not (value is None or value == "none" or isinstance(value, kind)) or isinstance(value, bool):
            raise TypeError(f"{path} = {value!r}")


def _starts(path: Path) -> list[Event]:
    rule = "be JSON, undamaged: a list with an object for each start"
    starts: list[Event] = read_json(path, list, rule) if path.is_file() else []
    with reading(path, rule, found=""):
        for start in starts:
            if not isinstance(start.get("command", []), list):
                raise TypeError(f"the command {start['command']!r}")
    return starts


def _object(path: Path) -> Event | None:
    return read_json(path, dict) if path.is_file() else None


def _lines(path: Path) -> list[Event]:
    """The events in a file of JSON lines; a last one that is being written does not count."""
    if not path.is_file():
        return []
    content = read_text(path, "hold lines of JSON")
    events = []
    for number, line in enumerate(content[: content.rfind("\n") + 1].split("\n")[:-1], 1):
        with reading(f"{path}, line {number},", "be JSON, and an event of a run", found=""):
            events.append(_event(line))
    return events


def _event(line: str) -> Event:
    event: Event = json_of(line, dict)
    for name in _NEEDED.get(str(event.get("event")), ()):
        if name not in event:
            raise ValueError(f"no {name}")
    for name in event.keys() & _NUMBERS:
        numbers = event[name] if name == "losses" and event[name] else [event[name]]
        if not all(isinstance(number, int | float) and abs(number) < _LARGEST for number in numbers):
            raise TypeError(f"{name} = {event[name]!r}")
    return event
