import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.paper._items import Counter, item

from batchcut._progress import Progress
from batchcut.paper import Settings, choose, run_items
from batchcut.paper._item import Data
from batchcut.paper.page._store import PICTURES, RESULT, VERDICT, load

QUICK = Settings(scale="quick")


def test_writes_data_pictures_and_verdict(tmp_path: Path) -> None:
    (outcome,) = run_items([item(Counter(2))], QUICK, out=tmp_path / "deep" / "er")
    home = tmp_path / "deep" / "er" / "fig-small"
    content = json.loads((home / RESULT).read_text())
    assert content["data"] == {"value": 2, "seed": 0}
    assert content["verdict"]["word"] == "does not agree"
    assert content["identity"]["scale"] == "quick"
    assert (home / VERDICT).read_text() == "fig:small: does not agree. NO: paper: 1 — here: 2 (because it is not 1)\n"
    assert (home / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (home / "figure.svg").read_bytes()
    assert (home / "figure.svg").read_bytes() != (home / "figure-dark.svg").read_bytes()
    assert not outcome.reused
    assert sorted(path.name for path in home.iterdir()) == sorted([RESULT, VERDICT, *PICTURES])


def test_same_settings_are_not_run_again(tmp_path: Path) -> None:
    run = Counter()
    for _ in range(2):
        (outcome,) = run_items([item(run)], QUICK, out=tmp_path)
    assert (run.calls, outcome.reused) == (1, True)
    assert outcome.verdict.word == "agrees"


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        (Settings(scale="full"), {}),
        (Settings(scale="quick", seed=1), {}),
        (QUICK, {"revision": 2}),
        (Settings(scale="quick", cifar=Path("images")), {"needs_images": True}),
    ],
)
def test_other_settings_run_again(tmp_path: Path, settings: Settings, changes: dict[str, Any]) -> None:
    run = Counter()
    list(run_items([item(run)], QUICK, out=tmp_path))
    list(run_items([item(run, **changes)], settings, out=tmp_path))
    assert run.calls == 2


def test_images_matter_only_where_they_are_used(tmp_path: Path) -> None:
    run = Counter()
    list(run_items([item(run)], QUICK, out=tmp_path))
    list(run_items([item(run)], Settings(scale="quick", cifar=Path("images")), out=tmp_path))
    assert run.calls == 1


def test_another_version_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Counter()
    list(run_items([item(run)], QUICK, out=tmp_path))
    monkeypatch.setattr("batchcut.__version__", "99")
    list(run_items([item(run)], QUICK, out=tmp_path))
    assert run.calls == 2


def test_force_runs_again(tmp_path: Path) -> None:
    run = Counter()
    for _ in range(2):
        list(run_items([item(run)], QUICK, out=tmp_path, force=True))
    assert run.calls == 2


@pytest.mark.parametrize("broken", [RESULT, "figure.png", VERDICT])
def test_missing_file_runs_again(tmp_path: Path, broken: str) -> None:
    run = Counter()
    list(run_items([item(run)], QUICK, out=tmp_path))
    (tmp_path / "fig-small" / broken).unlink()
    list(run_items([item(run)], QUICK, out=tmp_path))
    assert run.calls == 2
    assert load(tmp_path, item(run)) is not None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"identity": 3, "seconds": 1, "data": {}}', '{"seconds": "x"}'])
def test_damaged_result_runs_again(tmp_path: Path, content: str) -> None:
    run = Counter()
    list(run_items([item(run)], QUICK, out=tmp_path))
    (tmp_path / "fig-small" / RESULT).write_text(content)
    list(run_items([item(run)], QUICK, out=tmp_path))
    assert run.calls == 2


def test_an_item_that_fails_leaves_the_others_and_no_half_result(tmp_path: Path) -> None:
    first, second = Counter(), Counter(error=RuntimeError("no convergence"))
    items = [item(first, "fig:first"), item(second, "fig:second")]
    with pytest.raises(RuntimeError, match="no convergence"):
        list(run_items(items, QUICK, out=tmp_path))
    assert load(tmp_path, items[0]) is not None
    assert load(tmp_path, items[1]) is None
    second.error = None
    assert [outcome.reused for outcome in run_items(items, QUICK, out=tmp_path)] == [True, False]


def test_running_again_with_force_and_failing_does_not_keep_a_mixture(tmp_path: Path) -> None:
    run = Counter()
    small = item(run)
    list(run_items([small], QUICK, out=tmp_path))
    before = (tmp_path / "fig-small" / RESULT).read_bytes()
    run.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        list(run_items([small], QUICK, out=tmp_path, force=True))
    assert (tmp_path / "fig-small" / RESULT).read_bytes() == before


def test_numbers_that_json_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        list(run_items([item(Counter(float("nan")))], QUICK, out=tmp_path))
    assert load(tmp_path, item(Counter())) is None


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(
        ValueError, match=r"out must be a folder, or a path where one can be made; got the file .*taken"
    ):
        list(run_items([item(Counter())], QUICK, out=tmp_path / "taken"))


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    run = Counter()
    with pytest.raises(ValueError, match=r"out must be a folder that can be written to; got .*No space left"):
        list(run_items([item(run)], QUICK, out=tmp_path))
    assert run.calls == 0


def test_small_pieces_are_worked_on_by_one_thread(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    threads = []

    class Asking(Counter):
        def __call__(self, settings: Settings, progress: Progress) -> Data:
            threads.append(torch.get_num_threads())
            return super().__call__(settings, progress)

    for place, (small, scale) in enumerate([(True, "full"), (False, "quick"), (False, "full")]):
        settings = Settings(scale=scale)  # type: ignore[arg-type]
        list(run_items([item(Asking(), small=small)], settings, out=tmp_path / str(place)))
    assert threads == [1, 1, 2]
    assert torch.get_num_threads() == 2


def test_progress_goes_from_0_to_1(tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    list(
        run_items([item(Counter())], QUICK, out=tmp_path, report=lambda which, share: seen.append((which.label, share)))
    )
    assert seen == [("fig:small", 0.0), ("fig:small", 0.5), ("fig:small", 1.0)]


KILLED = """
import sys
from pathlib import Path
from batchcut.paper import Settings, run_items
from tests.paper._items import Counter, item
items = [item(Counter(), "fig:first"), item(Counter(seconds=60), "fig:second")]
for outcome in run_items(items, Settings(scale="quick"), out=Path(sys.argv[1])):
    print(outcome.item.label, flush=True)
"""


@pytest.mark.slow
def test_killed_in_the_middle_loses_that_item_only(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "fig:first\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    process.stdout.close()
    first, second = Counter(), Counter()
    items = [item(first, "fig:first"), item(second, "fig:second")]
    assert [outcome.reused for outcome in run_items(items, QUICK, out=tmp_path)] == [True, False]
    assert (first.calls, second.calls) == (0, 1)


def test_choose_keeps_the_papers_order() -> None:
    assert [item.label for item in choose(["theory", "fig:concept"])] == ["fig:concept", "theory"]
    assert len(choose(["all"])) == len(choose(["all", "theory"])) > 7


def test_choose_refuses_unknown_labels_and_none() -> None:
    with pytest.raises(ValueError, match=r"got 'fig:toy'\ndid you mean fig:toy_\w+\? `batchcut paper list` names all"):
        choose(["theory", "fig:toy"])
    with pytest.raises(ValueError, match="names must be 'all' or some of"):
        choose([])
