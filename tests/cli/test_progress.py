"""Lines in place of bars, where the error stream is no terminal."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from batchcut import cli
from batchcut.cli import _progress
from batchcut.cli._progress import Shown, TimeLeft, duration, pauses, share_progress, told


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
