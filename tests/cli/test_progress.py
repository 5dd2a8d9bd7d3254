"""What is shown of work that goes on: bars on a terminal, lines where the error stream is none."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from batchcut import cli
from batchcut.cli import _progress
from batchcut.cli._progress import DemoWatcher, Shown, TimeLeft, Watcher, duration, pauses, share_progress, told


def test_lines_come_soon_and_then_ever_more_seldom() -> None:
    first = list(itertools.islice(pauses(), 12))
    assert first[:4] == [1, 10, 20, 40]
    assert first == sorted(first)
    assert max(first) == 600


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.9, "1 s"), (119, "119 s"), (600, "10 min"), (86_400, "24 h"), (1e7, "116 days")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def shown_at(*times: float, total: float | None = 1.0) -> Shown:
    """Work whose share was told at these times, a 64th more each time."""
    clock = itertools.chain(times, itertools.repeat(times[-1]))
    progress = share_progress(hidden=True)
    progress.get_time = lambda: next(clock)
    task = progress.add_task("planning", total=total)
    for number in range(1, len(times)):
        progress.update(task, completed=number / 64)
    return progress


def test_a_line_says_what_is_done_how_long_it_took_and_what_is_left_at_this_pace() -> None:
    assert told(shown_at(0, 1, 2, 3, 4).tasks, 4) == "planning: 6 %, 4 s so far, about 60 s left"
    assert told(shown_at(0, 100, 200, 300).tasks, 300) == "planning: 5 %, 5 min so far, about 102 min left"


def test_what_is_left_is_told_when_enough_is_done_to_know() -> None:
    assert told(shown_at(0, 1, 2, 3).tasks, 3) == "planning: 5 %, 3 s so far"
    assert told(shown_at(0, 20, 40, 60).tasks, 60) == "planning: 5 %, 60 s so far, about 20 min left"


def test_a_bar_tells_what_is_left_when_a_line_would() -> None:
    early, late = shown_at(0, 1, 2, 3), shown_at(0, 1, 2, 3, 4)
    assert [TimeLeft().render(shown.tasks[0]).plain for shown in (early, late)] == ["", "0:01:00"]


def test_a_line_of_work_that_tells_nothing() -> None:
    assert told([], 3) == "at work: 3 s so far"
    assert told(shown_at(0).tasks, 3) == "planning: 3 s so far"
    assert told(shown_at(0, 1, 2, total=None).tasks, 3) == "planning: 3 s so far"


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Two lines come at once, and then no more; whoever works may wait for them."""
    written = threading.Event()

    def at_once() -> Iterator[float]:
        yield from (0.0, 0.0)
        written.set()

    monkeypatch.setattr(_progress, "pauses", at_once)
    return written


def test_lines_go_to_the_error_stream_though_the_work_tells_nothing(
    hurry: threading.Event, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = share_progress(hidden=False)
    progress.add_task("planning [5] pairs", total=1.0)
    with progress:
        progress.start()  # once more does no harm
        assert hurry.wait(60)
    assert tuple(capsys.readouterr()) == ("", 2 * "planning [5] pairs: 0 s so far\n")


def test_hidden_progress_says_nothing(hurry: threading.Event, capsys: pytest.CaptureFixture[str]) -> None:
    with share_progress(hidden=True) as progress:
        progress.add_task("planning", total=1.0)
    assert (tuple(capsys.readouterr()), hurry.is_set()) == (("", ""), False)


def test_work_that_ends_before_the_first_line_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_progress, "pauses", lambda: iter([3600.0]))
    with share_progress(hidden=False) as progress:
        progress.add_task("planning", total=1.0)
    assert tuple(capsys.readouterr()) == ("", "")


@pytest.mark.parametrize("hint", [[], ["--json"]])
def test_a_verb_tells_on_the_error_stream(
    hint: list[str], hurry: threading.Event, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = Shown.stop
    monkeypatch.setattr(Shown, "stop", lambda self: (hurry.wait(60), ended(self)))
    with pytest.raises(SystemExit):
        cli.main(["theory", "thm:Toy-example", *hint])
    out, err = capsys.readouterr()
    assert err.count(" so far\n") == 2
    assert "so far" not in out


def test_a_terminal_sees_loss_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with Watcher(hidden=False) as watcher:
        watcher({"event": "fetch", "name": "data.tar", "done": 2_000_000, "total": 5_000_000})
        watcher({"event": "step", "loss": 1.25, "epoch": 3, "step": 70})
        for step in range(71, 76):
            watcher({"event": "progress", "epoch": 3, "step": step, "steps": 100})
        watcher._bar.refresh()
        task = watcher._bar.tasks[-1]
        assert task.speed is not None
        assert task.completed == 75
    shown = capsys.readouterr().err
    for expected in (
        "fetching data.tar",
        "2.0 of 5.0 MB",
        "epoch 4 loss 1.250",
        "75 of 100 steps, ",
        " steps/s",
        "0:00:",
    ):
        assert expected in shown


def test_lines_of_the_demo_are_of_all_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with DemoWatcher(hidden=False) as watcher:
        for event in ({"event": "reads", "name": "functions"}, {"event": "read"}, {"event": "starts", "count": 2}):
            watcher(event)
        assert told(watcher._bar.tasks, 3) == "Starting 2 processes: 3 s so far"
        watcher({"event": "begin", "steps": {"Shuffle": 300, "Cut": 300}})
        watcher({"event": "progress", "method": "Cut", "advance": 300})
        assert told(watcher._bar.tasks, 9).startswith("all runs: 50 %, 9 s so far")
        watcher({"event": "done", "method": "Cut", "seed": 200, "top1": 0.364, "number": 1, "count": 2})
    assert capsys.readouterr().err == "Cut, seed 200: top-1 36.4% (1 of 2)\n"
