"""Small items for the tests of the frame: quick, and with a verdict that depends on the data."""

import time
from typing import TYPE_CHECKING, Any

from batchcut._progress import Progress
from batchcut.paper import Finding, Item, Settings, Table, Verdict
from batchcut.paper._item import Data

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Small:
    """Judges and shows a value."""

    def judge(self, data: Data) -> Verdict:
        return Verdict(
            findings=(Finding(paper="1", here=str(data["value"]), agrees=data["value"] == 1, why="it is not 1"),)
        )

    def draw(self, data: Data) -> "Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2, 1))
        figure.add_subplot().plot([0, data["value"]])
        return figure

    def describe(self, data: Data) -> str:
        return f'a line to "{data["value"]}"'

    def caption(self, data: Data) -> str:
        return "Made up."

    def tables(self, data: Data) -> tuple[Table, ...]:
        return (Table(heading="Values", columns=("x",), rows=((str(data["value"]),),)),)


class Counter:
    """Counts how often an item was computed; may take its time or fail."""

    def __init__(self, value: float = 1, *, seconds: float = 0, error: BaseException | None = None) -> None:
        self.calls = 0
        self.value, self.seconds, self.error = value, seconds, error

    def __call__(self, settings: Settings, progress: Progress) -> Data:
        self.calls += 1
        progress(0.5)
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return {"value": self.value, "seed": settings.seed}


def item(run: Counter, label: str = "fig:small", **changes: Any) -> Item:
    return Item(label, "Small & <quick>", (1, 0.5), Small(), run, **changes)
