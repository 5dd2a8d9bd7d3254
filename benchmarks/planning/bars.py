"""The bars that `Cut` must clear, computed from the rows of a run."""

from collections.abc import Iterator
from typing import Any, NamedTuple

Row = dict[str, Any]
Rows = dict[str, dict[str, Row]]  # by set, then by method

_OURS = ("Shuffle", "Cut")
_SC = "SC (authors), pool of 40"
_TWO_MEANS = "recursive balanced 2-means"


class Bar(NamedTuple):
    """One thing that must hold: what was measured, and the least or most that it may be."""

    name: str
    value: float
    bound: float
    at_least: bool

    @property
    def passed(self) -> bool:
        """Whether the measured value is on the right side."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def line(self) -> str:
        """One line of text."""
        sign = "≥" if self.at_least else "≤"
        return f"{'pass' if self.passed else 'FAIL'}  {self.name}: {self.value:.3f} {sign} {self.bound:g}"


class Note(NamedTuple):
    """One thing that was measured and need not hold."""

    name: str
    value: float

    def line(self) -> str:
        """One line of text."""
        return f"note  {self.name}: {self.value:.3f}"


def notes(rows: Rows) -> list[Note]:
    """Mean loss of a batch against rivals that repeat samples: for information.

    A mean over batches that share samples has no bound but the hardest batch of all, again and again; so the bar is by
    sample.
    """
    found = []
    for name, ours, rival, row in _rivals(rows):
        if not row["exact"]:
            times = f"{row['batches'] / ours['batches']:.1f} times as many"
            found.append(
                Note(f"{name}: Cut against {rival}, times the loss of a batch, {times}", ours["loss"] / row["loss"])
            )
    return found


def bars(rows: Rows, checks: dict[str, float]) -> list[Bar]:
    """All bars for which the run has the rows."""
    found = [*_against_spectral(rows), *_against_rivals(rows), *_growth(rows), *_threads(rows)]
    if "optimum cases" in checks:
        found.append(Bar("N = 12, B = 3: cases of 100 with 0.99 of the best weight", checks["optimum cases"], 95, True))
    if "first call cold" in checks:
        found.append(Bar("first call at N = 1,280, cold cache, seconds", checks["first call cold"], 10, False))
        found.append(Bar("first call at N = 1,280, warm cache, seconds", checks["first call warm"], 1, False))
    return found


def _against_spectral(rows: Rows) -> Iterator[Bar]:
    for name, by_method in rows.items():
        sc = by_method.get(_SC)
        for ours, sets, faster, harder in (
            ("Cut, pool of 40", ("S1", "S4"), 40, 1.25),
            ("Cut", ("S1",), 25, 4),
        ):
            row = by_method.get(ours)
            if sc and row and name in sets:
                yield Bar(f"{name}: {ours} against SC, times faster", sc["seconds"] / row["seconds"], faster, True)
                yield Bar(f"{name}: {ours} against SC, times the loss", row["loss"] / sc["loss"], harder, True)


def _against_rivals(rows: Rows) -> Iterator[Bar]:
    """Mean loss against that of each rival; of one that repeats samples by sample, each counted once (see `notes`)."""
    for name, ours, rival, row in _rivals(rows):
        if row["exact"]:
            yield Bar(f"{name}: Cut against {rival}, times the loss", ours["loss"] / row["loss"], 1, True)
        else:
            ratio = ours["by_sample"] / row["by_sample"]
            yield Bar(f"{name}: Cut against {rival}, times the loss of a sample", ratio, 1, True)
        if rival == _TWO_MEANS:
            yield Bar(f"{name}: Cut against {rival}, times faster", row["seconds"] / ours["seconds"], 1, True)


def _rivals(rows: Rows) -> Iterator[tuple[str, Row, str, Row]]:
    """The sets on which rivals are compared: the name, the row of `Cut`, and the name and row of each rival."""
    for name in ("S2", "S3"):
        by_method = rows.get(name, {})
        for rival, row in by_method.items():
            if "Cut" in by_method and not rival.startswith(_OURS):
                yield name, by_method["Cut"], rival, row


def _growth(rows: Rows) -> Iterator[Bar]:
    whole, quarter = rows.get("S5", {}).get("Cut"), rows.get("S5/4", {}).get("Cut")
    if whole and quarter:
        yield Bar("seconds at S5 over seconds at a quarter of S5", whole["seconds"] / quarter["seconds"], 5, False)
        yield Bar("S5: peak memory above the embeddings, over them", whole["memory"] / whole["embeddings"], 2, False)


def _threads(rows: Rows) -> Iterator[Bar]:
    for name in ("S1", "S3"):
        two, one = rows.get(name, {}).get("Cut"), rows.get(name, {}).get("Cut, one thread")
        if two and one:
            yield Bar(f"{name}: two threads against one, times faster", one["seconds"] / two["seconds"], 1.6, True)
