"""Tasks that leave files behind: done once, tried again where the engine failed."""

from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import pytest

from batchcut._progress import silent
from batchcut.scale._engine import EngineError, Workers


def touch(folder: Path, task: int) -> None:
    if task == 13:
        raise OSError(28, "No space left on device", str(folder / "13"))
    (folder / str(task)).write_text("done")


def run(folder: Path, tasks: list[int], n_jobs: int | None = None) -> list[float]:
    told: list[float] = []
    with joblib.parallel_config(backend="threading"), Workers(n_jobs) as workers:
        workers.run(partial(touch, folder), tasks, lambda task: folder / str(task), told.append)
    return told


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_what_is_done_is_not_done_again(tmp_path: Path, n_jobs: int | None) -> None:
    (tmp_path / "1").write_text("before")
    told = run(tmp_path, [0, 1, 2, 3], n_jobs)
    assert [(tmp_path / str(k)).read_text() for k in range(4)] == ["done", "before", "done", "done"]
    assert told == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert run(tmp_path, [0, 1, 2, 3], n_jobs) == [1.0]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_an_error_of_a_task_ends_the_work(tmp_path: Path, n_jobs: int | None) -> None:
    with pytest.raises(OSError, match="No space left on device") as caught:
        run(tmp_path, [0, 13, 2], n_jobs)
    assert caught.value.filename == str(tmp_path / "13")


def failing(original: Any, times: int, after: int) -> Any:
    """An engine that fails some times, each time after so many results."""
    left = [times]

    def results(*args: Any) -> Generator[Any]:
        for k, result in enumerate(original(*args)):
            if left[0] and k == after:
                left[0] -= 1
                raise EngineError("a worker was lost")
            yield result

    return results


def test_what_the_engine_lost_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workers, "_results", failing(Workers._results, times=2, after=1))
    assert run(tmp_path, list(range(6)))[-1] == 1.0
    assert len(list(tmp_path.iterdir())) == 6


def test_an_engine_that_does_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*args: Any) -> Generator[Any]:
        raise EngineError("ModuleNotFoundError: No module named 'batchcut'")
        yield

    monkeypatch.setattr(Workers, "_results", nothing)
    rule = "workers must stay, be able to import batchcut, and see the folder; got ModuleNotFoundError: No module"
    with pytest.raises(RuntimeError, match=rule):
        run(tmp_path, [0, 1])


def test_a_worker_that_writes_elsewhere_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"see the folder; got .*elsewhere/0 is not there"):
        Workers(None).run(partial(touch, tmp_path), [0], lambda task: tmp_path / "elsewhere" / str(task), silent)
