"""Folders of runs are read as they are, and what is wrong with one is said."""

import json
import shlex
from pathlib import Path

import pytest
from tests.report._folders import write_run

from batchcut.report import find_runs, read_run


def test_runs_are_found_alone_and_in_a_folder_each_once(runs: Path) -> None:
    names = [path.name for path in find_runs([runs / "shuffle-1", runs])]
    assert names == ["shuffle-1", "cut-0", "cut-1", "shuffle-0"]


@pytest.mark.parametrize(
    ("name", "what"), [("nowhere", "is not there"), ("u.npy", "is a file"), ("empty", "has no config.toml")]
)
def test_a_place_without_runs_is_refused(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "u.npy").touch()
    with pytest.raises(ValueError, match=rf"RUN must be the folder of a run, or a folder of such; .*{name} {what}"):
        find_runs([tmp_path / name])


def test_what_a_run_holds(runs: Path) -> None:
    run = read_run(runs / "cut-1")
    assert (run.method, run.seed, run.batch_size, run.temperature) == ("Cut", 1, 8, 0.1)
    assert run.command == "batchcut train"
    assert [len(losses) for losses in run.losses_by_epoch().values()] == [12, 12, 12]
    assert [plan.epoch for plan in run.plans()] == [1, 2]
    assert run.plan(0) is None
    assert run.embeddings("nothing") is None


def test_a_line_that_is_being_written_does_not_count_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    whole = read_run(folder).metrics
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"event": "st')
    assert read_run(folder).metrics == whole
    with (folder / "metrics.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(ValueError, match=rf"metrics.jsonl, line {len(whole) + 1}, must be JSON"):
        read_run(folder)


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("seed = 3\n")
    run = read_run(tmp_path)
    assert (run.seed, run.metrics, run.result, run.command) == (3, [], None, "unknown")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.toml", b"seed = = 1", "config.toml must be TOML"),
        ("config.toml", b"seed = 'one'", "config.toml must hold the settings of a run; got seed = 'one'$"),
        ("config.toml", b"data = 3", "config.toml must hold the settings of a run; got data = 3, which is no table$"),
        ("config.toml", b"x = " + b"[" * 5000, "config.toml must be TOML; got .*recursion"),
        ("config.toml", b"seed = " + b"1" * 5000, "config.toml must be TOML; got Exceeds the limit"),
        ("environment.json", b"[", "environment.json must be JSON, undamaged"),
        ("environment.json", b"{}", "environment.json must be JSON, undamaged.*; got dict where there must be list$"),
        ("environment.json", b"[3]", "environment.json must be JSON, undamaged"),
        ("environment.json", b"\xff", "environment.json must be JSON, undamaged.*, in UTF-8; got one that fails: "),
        ("result.json", b"[]", "result.json must be JSON, undamaged; got list where there must be dict$"),
        ("result.json", b"[" * 100_000, "result.json must be JSON, undamaged; got .*recursion"),
        ("metrics.jsonl", b"3\n", "metrics.jsonl, line 1, must be JSON, and an event of a run; got int where"),
        (
            "metrics.jsonl",
            b'{"event": "losses"}\n',
            "metrics.jsonl, line 1, must be JSON, and an event.*; got no epoch$",
        ),
        ("metrics.jsonl", b'{"step": "1"}\n', "metrics.jsonl, line 1, must be JSON, and an event.*; got step = '1'$"),
        ("metrics.jsonl", b'{"losses": []}\n', r"metrics.jsonl, line 1, must be .*; got losses = \[\]$"),
        ("timings.jsonl", b'{"training": null}\n', "timings.jsonl, line 1, must be .*; got training = None$"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    folder = write_run(tmp_path / "run")
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read_run(folder)


def test_damaged_embeddings_are_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "embeddings" / "final.safetensors").write_bytes(b"nothing of the kind")
    text = r"final\.safetensors must be a file of embeddings of this run, undamaged"
    with pytest.raises(ValueError, match=text):
        read_run(folder).embeddings("final")


def test_the_command_for_the_same_again_has_the_path_as_given(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "my runs" / "cut")
    *words, path = shlex.split(read_run(folder).again)
    assert words == ["batchcut", "train", "--config"]
    assert Path(path) == folder / "config.toml"


def test_a_command_run_as_a_module_is_shown_as_one(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "environment.json").write_text(json.dumps([{"command": ["/x/batchcut/__main__.py", "train", "a b"]}]))
    assert read_run(folder).command == "python -m batchcut train 'a b'"
