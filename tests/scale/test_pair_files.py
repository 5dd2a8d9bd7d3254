"""Files of pairs: all formats give the same rows, and what does not fit is named."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors.numpy import save_file
from tests.scale.conftest import make_pairs

from batchcut.sampling import EmbeddingBank
from batchcut.scale import open_pair_files, plan_in_cells
from batchcut.scale._group_labels import group_numbers

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def write_parquet(path: Path, u: Any, v: Any, *, group: Any = None, rows: int = 50) -> Path:
    columns = {"u": list(u), "v": list(v)} | ({} if group is None else {"group": list(group)})
    parquet.write_table(pyarrow.table(columns), path, row_group_size=rows)
    return path


def write_bank(path: Path, u: Any, v: Any, *, skipped: int = 0) -> Path:
    bank = EmbeddingBank(len(u), u.shape[1], dtype=torch.float16, path=path)
    index = torch.arange(skipped, len(u))
    bank.record(index, torch.from_numpy(u)[index], torch.from_numpy(v)[index])
    return path


@pytest.mark.usefixtures("small_cells")
def test_all_formats_give_the_same_plan(tmp_path: Path) -> None:
    u, v = make_pairs(300)
    for name, side in (("u", u), ("v", v)):
        np.save(tmp_path / f"{name}.npy", side)
    save_file({"u": u, "v": v}, tmp_path / "x.safetensors")
    files = [
        open_pair_files(tmp_path / "u.npy", str(tmp_path / "v.npy")),
        open_pair_files(tmp_path / "x.safetensors"),
        open_pair_files(write_parquet(tmp_path / "x.parquet", u, v)),
        open_pair_files(write_bank(tmp_path / "bank", u, v)),
    ]
    plans = [plan_in_cells(pairs, parts=tmp_path / str(k), batch_size=16) for k, pairs in enumerate(files)]
    assert [(len(pairs), pairs.dim, pairs.is_half) for pairs in files] == [(300, 8, True)] * 4
    assert all(plan == plans[0] for plan in plans)


@pytest.mark.usefixtures("small_cells")
def test_groups_in_parquet_are_those_of_files(tmp_path: Path) -> None:
    u, v = make_pairs(300)
    words = np.array([f"word {k % 40}" for k in range(300)])
    for name, values in (("u", u), ("v", v), ("groups", words)):
        np.save(tmp_path / f"{name}.npy", values)
    npy = open_pair_files(tmp_path / "u.npy", tmp_path / "v.npy", groups=tmp_path / "groups.npy")
    table = open_pair_files(write_parquet(tmp_path / "x.parquet", u, v, group=words))
    plans = [plan_in_cells(pairs, parts=tmp_path / str(k), batch_size=16) for k, pairs in enumerate((npy, table))]
    assert plans[0] == plans[1]
    assert plans[0].group_pairs == 0


def test_wide_numbers_are_as_good_as_narrow_ones(tmp_path: Path) -> None:
    u, v = make_pairs(200)
    np.save(tmp_path / "u.npy", u.astype(np.float64) * 1e200)
    np.save(tmp_path / "v.npy", v)
    pairs = open_pair_files(tmp_path / "u.npy", tmp_path / "v.npy")
    assert not pairs.is_half
    assert len(plan_in_cells(pairs, parts=tmp_path / "parts", batch_size=16).left_over) == 200 % 16


def test_row_groups_are_read_together_and_cut_where_one_is_too_large(tmp_path: Path) -> None:
    u, v = make_pairs(210)
    shard = open_pair_files(write_parquet(tmp_path / "x.parquet", u, v, group=np.arange(210))).shards[0]
    assert shard.bounds(120) == [(0, 100), (100, 210)]
    assert shard.bounds(100) == [(0, 100), (100, 200), (200, 210)]
    assert shard.bounds(40) == [(0, 40), (40, 50), (50, 90), (90, 100), (100, 140), (140, 150), (150, 190), (190, 210)]
    for start, stop in [*shard.bounds(100), *shard.bounds(40), (49, 51), (209, 210)]:
        found = shard.read(start, stop)
        assert found.groups is not None
        assert found.groups.tolist() == list(range(start, stop))
        assert np.array_equal(found.u, u[start:stop])
        assert np.array_equal(found.v, v[start:stop])


@pytest.mark.usefixtures("small_cells")
def test_row_groups_change_no_plan(tmp_path: Path) -> None:
    """One group of all rows, as pyarrow writes them, is far larger than what is read at a time."""
    u, v = make_pairs(300)
    files = [write_parquet(tmp_path / f"{rows}.parquet", u, v, rows=rows) for rows in (20, 300)]
    plans = [plan_in_cells(open_pair_files(path), parts=tmp_path / path.stem, batch_size=16) for path in files]
    assert plans[0] == plans[1]


def test_row_groups_that_change_are_named(tmp_path: Path) -> None:
    u, v = make_pairs(60)
    shard = open_pair_files(write_parquet(tmp_path / "x.parquet", u, v)).shards[0]
    write_parquet(tmp_path / "x.parquet", u, v, rows=30)
    with pytest.raises(ValueError, match=r"x\.parquet must be a whole .* other row groups than those of 60 rows"):
        shard.read(0, 60)


def test_group_numbers() -> None:
    words = group_numbers(np.array(["a", "b", "a"]))
    assert words[0] == words[2] != words[1]
    assert group_numbers(np.array([3, -1], np.int8)).tolist() == [3, -1]
    assert words[0] == group_numbers(np.array(["a"]))[0] == 3405396810240292928
    halves = group_numbers(np.array(["\ud800", "\udfff", "\ud800"]))  # of characters beyond 16 bits
    assert halves[0] == halves[2] != halves[1]


def test_bad_files(tmp_path: Path) -> None:
    u, v = make_pairs(60)
    save = {
        "u": u,
        "v": v,
        "short": v[:50],
        "wide": np.concatenate([u, u], axis=1),
        "whole": np.ones((60, 8), np.int64),
        "flat": u[0],
        "few": np.arange(59),
        "halves": np.arange(60) / 2,
        "flags": np.arange(60) > 3,
        "numbers": np.arange(60),
        "words": np.arange(60).astype(str),
        "empty": u[:0],
    }
    path = {name: tmp_path / f"{name}.npy" for name in save}
    for name, values in save.items():
        np.save(path[name], values)
    torn = tmp_path / "torn.npy"
    torn.write_bytes(path["u"].read_bytes()[:-10])
    gap = write_bank(tmp_path / "gap", u, v, skipped=4)
    other = tmp_path / "other.parquet"
    parquet.write_table(pyarrow.table({"u": list(u), "w": list(v)}), other)
    whole = write_parquet(tmp_path / "whole.parquet", np.ones(u.shape, np.int32), v)
    np.savez(tmp_path / "x.npz", u=u, v=v)
    text = tmp_path / "text.txt"
    text.write_text("text")
    plain = write_parquet(tmp_path / "a.parquet", u, v)
    grouped = write_parquet(tmp_path / "b.parquet", u, v, group=np.arange(60))
    both = (path["u"], path["v"])
    bad: list[tuple[type[Exception], tuple[Any, ...], str]] = [
        (FileNotFoundError, (tmp_path / "gone.npy", path["v"]), "no such file.*gone"),
        (ValueError, (path["u"], path["short"]), r"short\.npy must have the shape of the other side, \(60, 8\); got"),
        (ValueError, ([path["u"], path["wide"]],) * 2, r"wide\.npy must be 8 wide, as .*u\.npy is; got 16"),
        (TypeError, (path["whole"],) * 2, r"whole\.npy must hold floating-point numbers; got int64"),
        (ValueError, (path["flat"],) * 2, r"flat\.npy must have two dimensions .* got shape \(8,\)"),
        (ValueError, (path["empty"],) * 2, r"empty\.npy must have two dimensions .* got shape \(0, 8\)"),
        (ValueError, (torn, path["v"]), r"torn\.npy must be a whole \.npy file of numbers"),
        (ValueError, (*both, path["few"]), r"few\.npy must hold one group for each of 60 samples; got shape \(59,\)"),
        (
            TypeError,
            (*both, path["halves"]),
            r"halves\.npy must hold an integer or a string for each sample; got float64",
        ),
        (TypeError, (*both, path["flags"]), r"flags\.npy must hold an integer or a string for each sample; got bool"),
        (
            ValueError,
            ([path["u"], plain], [path["v"]] * 2),
            r"u must name \.npy files alone where v .* got .*a\.parquet",
        ),
        (
            TypeError,
            ([path["u"]] * 2, [path["v"]] * 2, [path["numbers"], path["words"]]),
            r"words\.npy must hold groups that are integers, as those in .*numbers\.npy are; got strings",
        ),
        (ValueError, (path["u"], both), "v must name as many files as u, 1; got 2"),
        (ValueError, (path["u"],), r"v must name \.npy files where u does, and be left out otherwise; got none"),
        (ValueError, (gap,), "gap must hold an embedding of each of its 60 samples; got none of 4"),
        (ValueError, (other,), r"other\.parquet must be a whole .* got one that fails: no columns u and v, but u, w"),
        (ValueError, (whole,), r"whole\.parquet must be a whole .* lists of int32 in the column u"),
        (ValueError, (text,), r"text\.txt must be \.npy, \.parquet, \.safetensors or the file of a bank; got \.txt"),
        (ValueError, ([plain, grouped],), r"b\.parquet must have no groups, as .*a\.parquet does; got groups"),
        (ValueError, (plain, None, path["few"]), r"groups must be left out for \.parquet files"),
        (TypeError, (3,), "u must be the path of a file or a list of paths; got int"),
        (ValueError, (tmp_path / "x.npz",), r"x\.npz must be \.npy, \.parquet, \.safetensors or the file of a bank"),
        (ValueError, ([],), "u must name a file; got none"),
    ]
    for error, (first, *more), rule in bad:
        second, groups = [*more, None, None][:2]
        with pytest.raises(error, match=rule):
            open_pair_files(first, second, groups=groups)


def test_some_samples_are_drawn_from_all_shards(tmp_path: Path) -> None:
    u, v = make_pairs(210)
    files = [write_parquet(tmp_path / f"{k}.parquet", u[a:b], v[a:b]) for k, (a, b) in enumerate([(0, 70), (70, 210)])]
    pairs = open_pair_files(files)
    drawn = pairs.some(60, seed=1)
    rows = [int(np.flatnonzero((u == row).all(axis=1))[0]) for row in drawn[0]]
    assert rows == sorted(set(rows))
    assert len(rows) == 60
    assert rows[0] < 70 < rows[-1]
    assert np.array_equal(v[rows], drawn[1])
    assert np.array_equal(pairs.some(1000, seed=1)[0], u)


def test_a_shard_that_shrinks_is_named(tmp_path: Path) -> None:
    u, v = make_pairs(60)
    np.save(tmp_path / "u.npy", u)
    np.save(tmp_path / "v.npy", v)
    pairs = open_pair_files(tmp_path / "u.npy", tmp_path / "v.npy")
    np.save(tmp_path / "u.npy", u[:40])
    with pytest.raises(ValueError, match=r"u\.npy must have the shape it had, \(60, 8\); got \(40, 8\) and \(60, 8\)"):
        pairs.shards[0].read(0, 10)


@pytest.mark.parametrize(
    ("group", "got"),
    [
        ([0.5] * 60, "double"),
        ([True] * 60, "bool"),
        ([[1, 2]] * 60, "list<element: int64>"),
        ([7] * 55 + [None] + [7] * 4, "none in row 55"),
    ],
)
def test_groups_in_parquet_that_cannot_be(tmp_path: Path, group: Any, got: str) -> None:
    path = write_parquet(tmp_path / "x.parquet", *make_pairs(60), group=group)
    rule = rf"x\.parquet must hold an integer or a string for each sample in the column group; got {got}$"
    with pytest.raises((TypeError, ValueError), match=rule):
        open_pair_files(path).shards[0].read(0, 60)


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_rows_of_parquet_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("batchcut.scale._parquet_pairs._NUMBERS_AT_ONCE", 8 * most)
    u, v = make_pairs(210)
    shard = open_pair_files(write_parquet(tmp_path / "x.parquet", u, v, group=np.arange(210))).shards[0]
    found = shard.read(50, 150)
    assert found.groups is not None
    assert found.groups.tolist() == list(range(50, 150))
    assert np.array_equal(found.u, u[50:150])
    rows = np.array([3, 49, 150, 151, 209])
    assert np.array_equal(shard.take(rows).v, v[rows])


def test_some_samples_are_drawn_without_a_whole_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = open_pair_files(write_parquet(tmp_path / "x.parquet", *make_pairs(210)))
    monkeypatch.setattr(type(pairs.shards[0]), "read", None)
    assert pairs.some(20, seed=0)[0].shape == (20, 8)


def test_bfloat16_is_widened_by_blocks(tmp_path: Path) -> None:
    """NumPy has no such numbers: all of a file at once in float32 would be more memory than a task may take."""
    sides = {"u": torch.randn(20_000, 16).bfloat16(), "v": torch.randn(20_000, 16).bfloat16()}
    safetensors.torch.save_file(sides, tmp_path / "x.safetensors")
    tracemalloc.start()
    pairs = open_pair_files(tmp_path / "x.safetensors")
    rows, some = pairs.shards[0].read(500, 700), pairs.shards[0].take(np.array([3, 19_999]))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 200_000
    for name, read, taken in (("u", rows.u, some.u), ("v", rows.v, some.v)):
        np.testing.assert_array_equal(read, sides[name][500:700].float().numpy())
        np.testing.assert_array_equal(taken, sides[name][[3, 19_999]].float().numpy())
    assert (len(pairs), pairs.dim, pairs.is_half) == (20_000, 16, False)
