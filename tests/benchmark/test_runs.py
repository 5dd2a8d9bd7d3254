"""Runs that are stored are not made again, and what is chosen by is held out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.loops.runs import Results, Row, command_line, parsed, standard_error, without_test

from batchcut.data import Pairs, Split


def test_what_is_held_out_is_a_tenth_of_the_training_rows(split: Split) -> None:
    inner = without_test(split)
    assert isinstance(inner.train, Pairs)
    assert isinstance(inner.test, Pairs)
    assert isinstance(split.train, Pairs)
    assert len(inner.test) == len(split.train) // 10
    both = np.concatenate([inner.train.u, inner.test.u])
    assert np.array_equal(np.unique(both, axis=0), np.unique(split.train.u, axis=0))


def _facts(runs: list[Row], timed: list[Row]) -> Row:
    return {"best": max((row["top1"] for row in runs), default=None), "runs": runs, "timed": timed}


def _results(path: Path | None) -> Results:
    return Results(path, facts=_facts, line=str, names=("runs", "timed"))


def _run(top1: float) -> Row:
    return {"top1": top1, "curve": [1, top1]}


def test_each_run_is_stored_as_it_comes_and_made_once(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results = _results(path)
    results.add({"seed": 0}, _run, 0.5)
    results.add({"seed": 1}, _run, 0.7)
    assert json.loads(path.read_text())["best"] == 0.7
    again = _results(path)
    again.add({"seed": 1}, _fails)
    again.add({"seed": 1}, lambda: {"loop": 2.0}, name="timed")
    with pytest.raises(RuntimeError, match="made again"):
        again.add({"seed": 2}, _fails)
    stored = json.loads(path.read_text())
    assert stored["runs"] == [{"seed": seed, "top1": top1, "curve": [1, top1]} for seed, top1 in ((0, 0.5), (1, 0.7))]
    assert stored["timed"] == [{"seed": 1, "loop": 2.0}]


def _fails() -> Row:
    raise RuntimeError("made again")


@pytest.mark.slow
def test_runs_in_other_processes_are_stored_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results = _results(path)
    results.add({"seed": 0}, _run, 0.5)
    results.add_all([({"seed": 0}, _fails, ()), ({"seed": 1}, _run, (0.7,)), ({"seed": 2}, _run, (0.6,))], jobs=2)
    assert sorted((row["seed"], row["top1"]) for row in _results(path).runs) == [(0, 0.5), (1, 0.7), (2, 0.6)]


def test_without_a_file_nothing_is_stored() -> None:
    results = _results(None)
    results.add({"seed": 0}, _run, 0.5)
    assert results.facts["best"] == 0.5


def test_sets_and_seeds_are_those_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(*arguments: str) -> Any:
        monkeypatch.setattr("sys.argv", ["x.py", *arguments])
        return parsed(command_line("about", seeds=3, first_seed=60))

    options, readers, seeds = of("--pairs", "x.npz", "--functions", "--seeds", "2")
    assert (list(readers), list(seeds), options.output) == (["pairs", "functions"], [60, 61], None)
    with pytest.raises(SystemExit):
        of("--seeds", "2")


def test_the_error_of_a_mean_needs_two_values() -> None:
    assert standard_error([0.1]) is None
    assert standard_error([1.0, 3.0]) == pytest.approx(np.std([1, 3], ddof=1) / np.sqrt(2))
