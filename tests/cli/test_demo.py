"""What `batchcut demo` prints: a stranger sees the gain, how sure it is, and what the columns mean."""

from dataclasses import replace
from pathlib import Path

import pytest

from batchcut.cli import _demo
from batchcut.cli._output import console
from batchcut.demo import Outcome, Row
from batchcut.report import Gain

GAIN = Gain(mean=0.066, standard_error=0.004, seeds=3, freedom=2.0)
SHUFFLED = Row(
    method="Shuffle",
    top1=0.298,
    spread=0.003,
    gain=None,
    steps=1200,
    steps_to_shuffled=1200,
    effective_size=32.0,
    seconds=10.0,
    planning=0.0,
)
PLANNED = Row(
    method="Cut",
    top1=0.364,
    spread=0.005,
    gain=GAIN,
    steps=1200,
    steps_to_shuffled=600,
    effective_size=214.4,
    seconds=14.3,
    planning=1.24,
)
NONE = float("nan")
UNKNOWN = Row(
    method="Ordered",
    top1=0.2,
    spread=NONE,
    gain=Gain(mean=-0.098, standard_error=NONE, seeds=1, freedom=0.0),
    steps=1200,
    steps_to_shuffled=None,
    effective_size=NONE,
    seconds=10.0,
    planning=0.1,
)
OUTCOME = Outcome(
    rows=(SHUFFLED, UNKNOWN, PLANNED),
    finding="Cut is ahead.",
    asked=(),
    searched="",
    report=Path("report.html"),
    trained=True,
)


FIGURES = ("Cut", "36.4 ± 0.5", "+6.6 ± 0.4", "50 % of 1,200", "214")


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (SHUFFLED, ("Shuffle", "29.8 ± 0.3", "–", "–", "32", "0.0 of 10")),
        (PLANNED, (*FIGURES, "1.2 of 14")),
        (replace(PLANNED, seconds=0.42, planning=0.24), (*FIGURES, "0.2 of 0.4")),
        (UNKNOWN, ("Ordered", "20.0", "−9.8", "never", "unknown", "0.1 of 10")),
    ],
)
def test_the_cells_of_a_row(row: Row, cells: tuple[str, ...]) -> None:
    assert _demo._cells(row) == cells


@pytest.mark.parametrize(("width", "columns"), [(200, 6), (80, 6), (60, 4), (40, 3)])
def test_as_many_columns_as_fit_the_finding_and_what_they_mean(
    width: int, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_demo, "console", lambda: console(width=width))
    _demo._print_outcome(OUTCOME, "functions")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    (planned,) = (line for line in lines if line.startswith("│ Cut"))
    assert tuple(cell.strip() for cell in planned.strip("│").split("│")) == _demo._cells(PLANNED)[:columns]
    said = " ".join(" ".join(lines).split())
    assert "Cut is ahead." in said
    meanings = (
        "batches: ",
        "top-1, %: ",
        "gain, points: ",
        "steps to shuffled: ",
        "effective batch size: ",
        "ing, s: ",
    )
    assert [meaning in said for meaning in meanings] == [True] * columns + [False] * (6 - columns)
