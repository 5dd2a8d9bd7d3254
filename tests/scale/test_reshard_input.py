"""Resharding refuses, before it writes, what cannot be or what belongs to another plan."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from tests.scale._shards import (
    make_plan,
    runs,
    stop_after,
    write_rows,
    write_tar,
    write_tars,
)

from batchcut.scale import reshard, write_plan_table
from batchcut.selection import BatchPlan


def test_a_table_that_names_the_files(tmp_path: Path) -> None:
    plan = make_plan(20, 4)
    shards = write_tars(tmp_path, 8, 12)
    write_plan_table(plan, tmp_path / "plan.parquet", shards=shards)
    made = reshard(tmp_path / "plan.parquet", shards, tmp_path / "out", order="plan")
    assert runs(made) == plan.batches.tolist()
    plan.save(tmp_path / "plan.npz")
    assert runs(reshard(tmp_path / "plan.npz", shards, tmp_path / "again", order="plan")) == runs(made)


def test_files_that_are_not_those_of_the_table(tmp_path: Path) -> None:
    table = tmp_path / "plan.parquet"
    shards = write_tars(tmp_path, 8, 12)
    write_plan_table(make_plan(20, 4), table, shards=shards)

    def refused(files: list[Path], rule: str) -> None:
        with pytest.raises(ValueError, match=rule):
            reshard(table, files, tmp_path / "out")
        assert not list(tmp_path.glob("out*"))

    refused(shards[:1], r"shards must be the 2 files that .*plan\.parquet was written for; got 1, without data-1\.tar")
    refused(shards[::-1], r"data-1\.tar must be data-0\.tar with 8 samples, for which .*plan\.parquet was written; got")
    write_tar(shards[1], range(8, 19))
    refused(shards, r"data-1\.tar must be data-1\.tar with 12 samples, for which .*; got data-1\.tar with 11")
    write_tar(shards[1], range(8, 20), key="other-{place:04}")
    rule = r"data-1\.tar must hold the samples for which .*, in the same order; got no '\d{4}' where sample \d+"
    refused(shards, f"^{tmp_path}/{rule}")


def test_other_rows_in_files_of_the_same_names(tmp_path: Path) -> None:
    plan, table = make_plan(20, 4), tmp_path / "plan.parquet"
    shards = write_rows(tmp_path, 8, 12)
    write_plan_table(plan, table, shards=shards)
    (tmp_path / "copy").mkdir()
    copies = [Path(shutil.copy(path, tmp_path / "copy")) for path in shards]
    assert runs(reshard(table, copies, tmp_path / "same", order="plan")) == plan.batches.tolist()
    rows = pyarrow.parquet.read_table(copies[1])
    pyarrow.parquet.write_table(rows.take(np.arange(12)[::-1]), copies[1], row_group_size=7)
    rule = (
        r"copy/rows-1\.parquet must be the file for which .*plan\.parquet was written, of the same size and with the "
        r"same footer; got another of \d+ bytes$"
    )
    with pytest.raises(ValueError, match=rule):
        reshard(table, copies, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["tar", "parquet"])
@pytest.mark.parametrize("check", ["check_table_files", "check_counts"])
def test_files_are_checked_until_they_have_passed(
    check: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = write_tars if kind == "tar" else write_rows
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    plan: BatchPlan | Path = make_plan(24, 4)
    others = write(tmp_path / "b", 8, 12)
    if check == "check_table_files":
        plan = tmp_path / "plan.parquet"
        write_plan_table(make_plan(20, 4), plan, shards=write(tmp_path / "a", 8, 12))
        if kind == "tar":
            write_tar(others[1], range(8, 20), key="other-{place:04}")
        else:
            pyarrow.parquet.write_table(pyarrow.parquet.read_table(others[1]), others[1])
    with monkeypatch.context() as patch:
        patch.setattr(f"batchcut.scale._reshard.{check}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reshard(plan, others, tmp_path / "out")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"was written|plan must be a plan of the 20 samples"):
            reshard(plan, others, tmp_path / "out")
        assert not list(tmp_path.glob("out*"))


KILLED_IN_CHECK = """
import os, signal, sys
from pathlib import Path
from batchcut.scale import _reshard
_reshard.check_table_files = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
folder = Path(sys.argv[1])
_reshard.reshard(folder / "plan.parquet", folder / "data-0.tar", folder / "out")
"""


@pytest.mark.slow
def test_files_are_checked_after_a_kill_in_the_check(tmp_path: Path) -> None:
    shards = write_tars(tmp_path, 20)
    write_plan_table(make_plan(20, 4), tmp_path / "plan.parquet", shards=shards)
    write_tar(shards[0], range(20), key="other-{place:04}")
    killed = subprocess.run([sys.executable, "-c", KILLED_IN_CHECK, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "out.unfinished" / "index").exists()
    with pytest.raises(ValueError, match=r"data-0\.tar must hold the samples for which"):
        reshard(tmp_path / "plan.parquet", shards, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_a_check_that_passed_holds_for_its_table_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, table = make_plan(20, 4), tmp_path / "plan.parquet"
    (tmp_path / "a").mkdir()
    write_plan_table(plan, table, shards=write_tars(tmp_path / "a", 20, key="other-{place:04}"))
    shards = write_tars(tmp_path, 20)
    with monkeypatch.context() as patch:
        stop_after(patch, "tar", 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            reshard(plan, shards, tmp_path / "out", batches_per_shard=2)
    with pytest.raises(ValueError, match=r"data-0\.tar must hold the samples for which"):
        reshard(table, shards, tmp_path / "out", batches_per_shard=2)
    assert (tmp_path / "out.unfinished" / "shard-000000.tar").exists()
    monkeypatch.setattr("batchcut.scale._reshard.check_counts", interrupted)  # which has passed, and is not called
    made = reshard(plan, shards, tmp_path / "out", batches_per_shard=2)
    assert sorted(runs(made)) == sorted(plan.batches.tolist())


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    shards = write_tars(tmp_path, 20)
    notes = tmp_path / "out.unfinished" / ".notes"
    notes.parent.mkdir()
    notes.write_text("mine")
    with pytest.raises(ValueError, match="plan must be a plan of the 20 samples"):
        reshard(make_plan(24, 4), shards, tmp_path / "out")
    assert [path.name for path in notes.parent.iterdir()] == [".notes"]
    made = reshard(make_plan(20, 4), shards, tmp_path / "out")
    assert (made.folder / ".notes").read_text() == "mine"


@pytest.mark.parametrize("kind", [pyarrow.string_view(), pyarrow.list_(pyarrow.binary_view())], ids=str)
def test_columns_that_cannot_be_put_in_order(kind: Any, tmp_path: Path) -> None:
    table = pyarrow.table({"sample": list(range(20)), "text": pyarrow.array([None] * 20, kind)})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    rule = r"a\.parquet must have columns that pyarrow can put in another order; got text \(.*_view>?\)"
    with pytest.raises(ValueError, match=rule):
        reshard(make_plan(20, 4), tmp_path / "a.parquet", tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def test_columns_that_differ_in_nothing_but_gaps(tmp_path: Path) -> None:
    """Other programs say of a column that it has no gaps, and pyarrow does not."""
    shards = write_rows(tmp_path, 10, 10)
    table = pyarrow.parquet.read_table(shards[1])
    full = pyarrow.schema([field.with_nullable(field.name != "text") for field in table.schema])
    pyarrow.parquet.write_table(table.cast(full), shards[1])
    rule = r"sample \(int64\), text \(string\); got sample \(int64\), text \(string not null\)$"
    with pytest.raises(ValueError, match=rule):
        reshard(make_plan(20, 4), shards, tmp_path / "out")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: (f / "data-1.tar").unlink(), r"no such file.*data-1\.tar"),
        (lambda f: cut(f / "data-1.tar", 3000), r"data-1\.tar must be a whole WebDataset tar, not compressed; got"),
        (lambda f: write_tar(f / "data-1.tar", range(3)), r"plan must be a plan of the 13 samples .*; got one of 22"),
        (lambda f: (f / "data-1.tar").write_bytes(b""), r"data-1\.tar must be a whole WebDataset tar"),
    ],
)
def test_a_missing_or_shorter_shard(damage: Any, says: str, tmp_path: Path) -> None:
    shards = write_tars(tmp_path, 10, 12)
    damage(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=says):
        reshard(make_plan(22, 4), shards, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_rows_of_different_widths(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    shards = write_rows(tmp_path, 10, 10)
    pyarrow.parquet.write_table(pyarrow.table({"sample": list(range(10))}), shards[1])
    rule = r"rows-1\.parquet must have the columns of .*rows-0\.parquet: sample \(int64\), text \(string\); got sample"
    with pytest.raises(ValueError, match=rule):
        reshard(make_plan(20, 4), shards, tmp_path / "out")
    with pytest.raises(ValueError, match=r"a\.tar must be a \.tar or a \.parquet file, as all other shards are"):
        reshard(make_plan(20, 4), [shards[0], write_tar(tmp_path / "a.tar", [1])], tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ranks": 0}, "ranks must be at least 1; got 0"),
        ({"ranks": 9}, "ranks must be at most the number of batches, 5; got 9"),
        ({"ranks": 3, "mode": "split"}, "ranks must divide the batch size 4 where batches are split; got 3"),
        ({"mode": "x"}, "mode must be one of 'whole', 'split'; got 'x'"),
        ({"order": "x"}, "order must be one of 'random', 'plan'; got 'x'"),
        ({"batches_per_shard": 0}, "batches_per_shard must be at least 1; got 0"),
        ({"memory": 0}, "memory must be at least 1; got 0"),
        ({"out": ""}, "out must be a folder with a name; got"),
        ({"out": "taken"}, r"out must be a new folder, or an empty one; got .*taken"),
        ({"shards": []}, "shards must name a file; got none"),
    ],
)
def test_what_cannot_be_asked_for(
    options: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    asked: dict[str, Any] = {"plan": make_plan(21, 4), "shards": write_tars(tmp_path, 21), "out": "out"} | options
    with pytest.raises(ValueError, match=says):
        reshard(**asked)
    assert not list(tmp_path.glob("out*"))


def test_a_place_that_cannot_be_renamed_to_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path / "disk")
    rule = r"^out must be a folder within a file system, not where one is mounted; got .*disk$"
    with pytest.raises(ValueError, match=rule):
        reshard(make_plan(21, 4), write_tars(tmp_path, 21), tmp_path / "disk")
    assert not (tmp_path / "disk.unfinished").exists()


def test_progress_that_cannot_be_told(tmp_path: Path) -> None:
    progress: Any = 3
    with pytest.raises(TypeError, match=r"^progress must be None or a function of one number; got int$"):
        reshard(make_plan(21, 4), write_tars(tmp_path, 21), tmp_path / "out", progress=progress)
    assert not list(tmp_path.glob("out*"))


def test_ranks_of_numpy(tmp_path: Path) -> None:
    made = reshard(make_plan(21, 4), write_tars(tmp_path, 21), tmp_path / "out", ranks=np.int64(2))  # type: ignore[arg-type]
    assert type(made.ranks) is int
    assert len(made.shards) == 2


def test_several_ranks_need_full_batches(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="plan must have full batches alone for several ranks"):
        reshard(make_plan(21, 4, drop_last=False), write_tars(tmp_path, 21), tmp_path / "out", ranks=2)


def test_a_plan_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="plan must be a BatchPlan or the path of one; got int"):
        reshard(3, write_tars(tmp_path, 8), tmp_path / "out")  # type: ignore[arg-type]
    (tmp_path / "plan.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"plan\.npz must be a plan saved by BatchPlan\.save"):
        reshard(tmp_path / "plan.npz", write_tars(tmp_path, 8), tmp_path / "out")
