"""Plans as parquet: they read back equal, say where samples lie, and damage is refused."""

import io
import json
import os
import resource
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scale._shards import make_plan, write_rows, write_tars

from batchcut.scale import read_plan_table, write_plan_table
from batchcut.selection import Ordered


@settings(max_examples=40, deadline=None)
@given(size=st.integers(2, 9), more=st.integers(0, 40), drop_last=st.booleans(), mapped=st.booleans())
def test_a_plan_reads_back_equal(
    size: int, more: int, drop_last: bool, mapped: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plan = make_plan(size + more, size, drop_last=drop_last)
    path = tmp_path_factory.mktemp("plan") / "plan.parquet"
    write_plan_table(plan, path)
    again = read_plan_table(path, mapped=mapped)
    assert again == plan
    assert again.seconds == plan.seconds
    assert isinstance(again.batches, np.memmap) is mapped


def test_a_measured_plan_with_repeats_and_much_left_over(tmp_path: Path) -> None:
    u, v = np.random.default_rng(0).standard_normal((2, 100, 4))
    plan = Ordered(k=5, q=1)(u, v, batch_size=10)
    plan = plan.measured(u, v)
    write_plan_table(plan, tmp_path / "plan.parquet")
    again = read_plan_table(tmp_path / "plan.parquet")
    assert again == plan
    assert again.effective == plan.effective is not None
    assert len(again.left_over) == 80


def test_blocks_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchcut.scale._plan_table._ROWS_AT_ONCE", 5)
    monkeypatch.setattr("batchcut.selection._plan_checks._SAMPLES_AT_ONCE", 5)
    plan = make_plan(50, 4, drop_last=False)
    write_plan_table(plan, tmp_path / "plan.parquet", shards=write_tars(tmp_path, 20, 0, 30))
    assert read_plan_table(tmp_path / "plan.parquet", mapped=True) == plan


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_rows_say_where_each_sample_lies(kind: str, tmp_path: Path) -> None:
    write = write_tars if kind == "tar" else write_rows
    shards = write(tmp_path, 9, 3, 11)
    plan = make_plan(23, 4)
    write_plan_table(plan, tmp_path / "plan.parquet", shards=shards)
    rows = pyarrow.parquet.read_table(tmp_path / "plan.parquet").to_pylist()
    assert [row["sample"] for row in rows] == plan.batches.ravel().tolist()
    starts = [0, 9, 12]
    for place, row in enumerate(rows):
        shard = sum(row["sample"] >= start for start in starts) - 1
        own = row["sample"] - starts[shard]
        assert (row["batch"], row["position"]) == divmod(place, 4)
        assert (row["shard"], row["key"]) == (str(shards[shard]), f"{own:04}" if kind == "tar" else str(own))
        assert row["loss"] == plan.losses[row["batch"]]


def test_without_shards_their_columns_are_empty(tmp_path: Path) -> None:
    write_plan_table(make_plan(10, 5), tmp_path / "plan.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "plan.parquet")
    assert table.column_names == ["sample", "batch", "position", "shard", "key", "loss", "weight"]
    assert table.column("key").null_count == table.column("shard").null_count == 10


def test_other_shards_than_those_of_the_plan(tmp_path: Path) -> None:
    rule = r"plan must be a plan of the 12 samples in these files \(.*data-0\.tar 5, .*data-1\.tar 7\); got one of 13"
    with pytest.raises(ValueError, match=rule):
        write_plan_table(make_plan(13, 4), tmp_path / "plan.parquet", shards=write_tars(tmp_path, 5, 7))
    assert not (tmp_path / "plan.parquet").exists()
    with pytest.raises(TypeError, match="plan must be a BatchPlan; got str"):
        write_plan_table("plan", tmp_path / "plan.parquet")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["same", "spelling", "link", "hard"])
def test_a_table_never_takes_the_place_of_a_shard(kind: str, tmp_path: Path) -> None:
    shards = write_rows(tmp_path, 12, 8)
    before = shards[1].read_bytes()
    (tmp_path / "link.parquet").symlink_to(shards[1])
    os.link(shards[1], tmp_path / "hard.parquet")
    (tmp_path / "sub").mkdir()
    names = {"same": "rows-1.parquet", "spelling": "sub/../rows-1.parquet"}
    path = tmp_path / names.get(kind, f"{kind}.parquet")
    with pytest.raises(ValueError, match=r"^path must be another file than those that are read; got .*\.parquet$"):
        write_plan_table(make_plan(20, 4), path, shards=shards)
    assert path.read_bytes() == shards[1].read_bytes() == before
    assert (tmp_path / "link.parquet").is_symlink()


def test_texts_that_are_not_utf_8(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        for name in ("a.txt", "b\udce4.txt"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    rule = r"a\.tar must have keys in UTF-8, as texts of a table are; got 'b\\udce4'$"
    with pytest.raises(ValueError, match=rule):
        write_plan_table(make_plan(2, 2), tmp_path / "plan.parquet", shards=tmp_path / "a.tar")
    (shard,) = write_tars(tmp_path, 2)
    shard = shard.rename(tmp_path / "\udce4.tar")
    with pytest.raises(ValueError, match=r"^shards must be paths in UTF-8, as texts of a table are; got '.*\\udce4"):
        write_plan_table(make_plan(2, 2), tmp_path / "plan.parquet", shards=shard)
    assert not (tmp_path / "plan.parquet").exists()


def test_a_full_disk_leaves_no_table(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large.*plan\.parquet"):
            write_plan_table(make_plan(4000, 4), tmp_path / "plan.parquet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def typed(name: str, kind: Any) -> Any:
    """A column gets another type."""
    return lambda t, _: t.set_column(t.column_names.index(name), name, t.column(name).cast(kind))


def rewritten(path: Path, change: Any) -> None:
    """The table after a change of its columns and its metadata."""
    table = pyarrow.parquet.read_table(path)
    content = json.loads(table.schema.metadata[b"batchcut"])
    changed = change(table, content)
    table = table if changed is None else changed
    pyarrow.parquet.write_table(table.replace_schema_metadata({"batchcut": json.dumps(content)}), path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t, c: c.update(format="x"), "format 'x' is not 'batchcut plan table 1'"),
        (lambda t, c: c.update(batch_size=0), "20 rows, for batches of 0"),
        (lambda t, c: c.update(batch_size=5), "rows from 0 on that are not in the order of batches and positions"),
        (lambda t, c: c.update(left_over=[]), "left_over must list the samples that are in no batch"),
        (lambda t, c: c["facts"].update(count=10**15), "left_over must list the samples that are in no batch"),
        (lambda t, c: c["facts"].update(seed=-1), "seed must be at least 0; got -1"),
        (lambda t, c: t.slice(0, 0), "0 rows, for batches of 4"),
        (lambda t, c: t.slice(4), "rows from 0 on that are not in the order"),
        (lambda t, c: t.slice(0, 16), "left_over must list the samples that are in no batch"),
        (lambda t, c: t.drop_columns(["loss"]), "loss"),
        (lambda t, c: t.set_column(0, "sample", pyarrow.array([0] * 20)), "batches must hold no sample twice"),
        (lambda t, c: t.set_column(0, "sample", pyarrow.array([None] * 20, "int64")), "rows without sample"),
        (typed("sample", "float64"), "sample as double, not int64"),
        (typed("batch", "float32"), "batch as float, not int64"),
        (typed("position", "string"), "position as string, not int32"),
        (typed("loss", "string"), "loss as string, not double"),
        (typed("weight", pyarrow.decimal128(38, 20)), r"weight as decimal128\(38, 20\), not double"),
        (
            lambda t, c: t.set_column(0, "sample", pyarrow.array([2**63] * 20, "uint64")),
            "sample as uint64, beyond int64",
        ),
        (lambda t, c: c.clear(), "format None is not"),
    ],
)
def test_what_is_no_plan_is_refused(change: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.parquet"
    write_plan_table(make_plan(22, 4), path)
    rewritten(path, change)
    with pytest.raises(ValueError, match=rf"plan\.parquet must be a plan written by write_plan_table; got .*{says}"):
        read_plan_table(path)


@pytest.mark.parametrize("mapped", [False, True])
def test_whole_numbers_of_any_width_are_read(mapped: bool, tmp_path: Path) -> None:
    path, plan = tmp_path / "plan.parquet", make_plan(22, 4)
    write_plan_table(plan, path)
    for name, kind in (("sample", "int32"), ("batch", "uint16"), ("position", "int64")):
        rewritten(path, typed(name, kind))
    assert read_plan_table(path, mapped=mapped) == plan


def test_damaged_tables_never_give_another_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.parquet"
    plan = make_plan(60, 4)
    write_plan_table(plan, path)
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 17):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            found = read_plan_table(path)
            assert np.array_equal(found.batches, plan.batches)
        except ValueError:
            refused += 1
    assert refused > 20


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_plan_table(tmp_path / "plan.parquet")


def test_what_is_no_path_is_named() -> None:
    path: Any = None
    with pytest.raises(TypeError, match=r"^path must be a path; got NoneType$"):
        read_plan_table(path)
    with pytest.raises(TypeError, match=r"^path must be a path; got NoneType$"):
        write_plan_table(make_plan(20, 4), path)


def test_a_folder_that_is_not_there_is_refused_before_the_keys_are_read(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "plan.parquet"
    (tmp_path / "no.tar").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"^path must lie in a folder that is there; got .*plan\.parquet$"):
        write_plan_table(make_plan(20, 4), target, shards=[tmp_path / "no.tar"])
