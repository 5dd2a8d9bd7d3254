"""Resharding: every run of B samples is a batch, for real readers, on several ranks; nothing half-made looks whole."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
import webdataset
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scale._shards import (
    content,
    make_plan,
    runs,
    samples_in,
    shards_of,
    stop_after,
    write_rows,
    write_tar,
    write_tars,
)
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

import batchcut as bc
from batchcut.scale import reshard
from batchcut.scale._parquet_samples import ParquetSampleFiles
from batchcut.selection import BatchPlan

LEAVES_FILES_OPEN = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(lambda sizes: sum(sizes) >= 2),
    size=st.integers(2, 7),
    drop_last=st.booleans(),
    most=st.one_of(st.none(), st.integers(1, 4)),
    rows=st.booleans(),
)
def test_every_sample_once_in_the_order_of_the_plan(
    sizes: list[int], size: int, drop_last: bool, most: int | None, rows: bool, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("set")
    plan = make_plan(sum(sizes), min(size, sum(sizes)), drop_last=drop_last)
    shards = write_rows(folder, *sizes) if rows else write_tars(folder, *sizes)
    in_order = reshard(plan, shards, folder / "plan", order="plan", batches_per_shard=most, memory=1)
    assert runs(in_order) == [batch.tolist() for batch in plan]
    assert in_order.samples == plan.count - len(plan.left_over)
    assert all(count <= (most or 10_000) for count in in_order.batches)
    shuffled = reshard(plan, shards, folder / "random", batches_per_shard=most)
    assert sorted(runs(shuffled)) == sorted(batch.tolist() for batch in plan)
    assert json.loads((folder / "plan" / "shards.json").read_text())["samples"] == in_order.samples


@settings(max_examples=30, deadline=None)
@given(number=st.integers(3, 12), ranks=st.integers(2, 3), most=st.integers(1, 4), split=st.booleans())
def test_all_ranks_have_as_many_whole_batches(
    number: int, ranks: int, most: int, split: bool, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("set")
    plan = make_plan(6 * number + 1, 6)
    shards = write_tars(folder, 5, 6 * number - 4)
    mode: Any = "split" if split else "whole"
    made = reshard(plan, shards, folder / "out", ranks=ranks, mode=mode, batches_per_shard=most)
    each = [runs(made, rank) for rank in range(ranks)]
    batches = {tuple(batch) for batch in plan.batches.tolist()}
    if split:
        whole = [tuple(chain(*parts)) for parts in zip(*each, strict=True)]
        assert (set(whole), made.left_out) == (batches, ())
    else:
        taken = [tuple(batch) for of_rank in each for batch in of_rank]
        assert {len(of_rank) for of_rank in each} == {number // ranks}
        assert set(taken) | {tuple(plan.batches[row].tolist()) for row in made.left_out} == batches
        assert len(taken) + len(made.left_out) == number


def test_the_order_is_a_function_of_seed_and_epoch(tmp_path: Path) -> None:
    shards = write_tars(tmp_path, 40)
    orders = []
    for name, epoch in (("a", 1), ("b", 1), ("c", 2)):
        plan = make_plan(40, 2, epoch=epoch)
        orders.append(runs(reshard(plan, shards, tmp_path / name)))
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != [batch.tolist() for batch in make_plan(40, 2)]


@LEAVES_FILES_OPEN
@pytest.mark.usefixtures("files_left_open")
def test_webdataset_reads_batches_in_order(tmp_path: Path) -> None:
    plan = make_plan(61, 5)
    made = reshard(plan, write_tars(tmp_path, 20, 41), tmp_path / "out", order="plan", batches_per_shard=4)
    dataset = webdataset.WebDataset(shards_of(made), shardshuffle=False).to_tuple("txt", "seg.bin", "__key__")
    batches = list(dataset.batched(made.batch_size, partial=False))
    assert len(batches) == len(plan)
    for number, (texts, data, keys) in enumerate(batches):
        wanted = plan.batches[number].tolist()
        assert [int(text.split()[1]) for text in texts] == wanted
        assert data == [content(sample)["seg.bin"] for sample in wanted]
        assert [key.rsplit("/", 1)[0] for key in keys] == [f"{number:02}/{position}" for position in range(5)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@LEAVES_FILES_OPEN
@pytest.mark.usefixtures("files_left_open")
def test_webdataset_deals_whole_batches_to_two_ranks_with_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(60, 4)
    made = reshard(plan, write_tars(tmp_path, 60), tmp_path / "out", ranks=2, batches_per_shard=2)
    urls = [str(made.folder / name) for name in made.shards]
    taken: list[list[int]] = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        dataset = webdataset.WebDataset(urls, shardshuffle=False, nodesplitter=webdataset.split_by_node)
        loader = DataLoader(dataset.to_tuple("txt").batched(4, partial=False), batch_size=None, num_workers=2)
        mine = [[int(text.split()[1]) for text in texts] for (texts,) in loader]
        assert len(mine) == len(plan) // 2
        taken += mine
    left = [plan.batches[row].tolist() for row in made.left_out]
    assert sorted(taken + left) == sorted(plan.batches.tolist())


class Rows(IterableDataset[Tensor]):
    """A plain data set over tars of planned batches: a sample after the other."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def __iter__(self) -> Iterator[Tensor]:
        for path in self._paths:
            for sample in samples_in(Path(path)):
                yield torch.tensor(sample)


def test_a_plain_data_set_gives_the_batches(tmp_path: Path) -> None:
    plan = make_plan(50, 6)
    made = reshard(plan, write_tars(tmp_path, 25, 25), tmp_path / "out", order="plan", batches_per_shard=3)
    batches = [batch.tolist() for batch in DataLoader(Rows(shards_of(made)), batch_size=made.batch_size)]
    assert batches == plan.batches.tolist()


def test_a_row_group_is_a_batch(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    plan = make_plan(33, 4, drop_last=False)
    made = reshard(plan, write_rows(tmp_path, 20, 13), tmp_path / "out", order="plan", batches_per_shard=5)
    found = []
    for path in shards_of(made):
        with parquet.ParquetFile(path) as file:
            found += [file.read_row_group(k).column("text").to_pylist() for k in range(file.num_row_groups)]
    assert found == [[f"text {sample}" for sample in batch] for batch in plan]


@pytest.mark.parametrize("codec", ["ZSTD", "GZIP", "NONE"])
def test_rows_stay_compressed_as_they_were(codec: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    shards = write_rows(tmp_path, 10, 13, 20)
    for path in shards:
        table = parquet.read_table(path)
        table = table.slice(0, 0) if path == shards[0] else table  # no rows, and so no codec
        parquet.write_table(table, path, compression=codec)
    made = reshard(make_plan(33, 4), shards, tmp_path / "out")
    for shard in shards_of(made):
        with parquet.ParquetFile(shard) as file:
            text = file.metadata.row_group(0).column(1)
            assert text.compression == codec.replace("NONE", "UNCOMPRESSED")


@LEAVES_FILES_OPEN
@pytest.mark.usefixtures("files_left_open")
def test_a_tower_trains_from_them(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 6).repeat_interleave(16, 0) + 0.3 * torch.randn(128, 6)
    plan = bc.Cut(temperature=0.1)(x.numpy(), (x + 0.01 * torch.randn_like(x)).numpy(), batch_size=16)
    made = reshard(plan, write_tars(tmp_path, 64, 64), tmp_path / "out", batches_per_shard=2)
    tower = nn.Linear(6, 8)
    optimizer = torch.optim.SGD(tower.parameters(), lr=0.5)
    losses = []
    for _ in range(6):
        dataset = webdataset.WebDataset(shards_of(made), shardshuffle=False).to_tuple("txt")
        total = 0.0
        for (texts,) in dataset.batched(made.batch_size, partial=False):
            index = torch.tensor([int(text.split()[1]) for text in texts])
            loss = bc.contrastive_loss(tower(x[index]), tower(x[index] + 0.1 * torch.randn(16, 6)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total)
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_what_was_interrupted_is_gone_on_with(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = write_tars(tmp_path, 20, 21) if kind == "tar" else write_rows(tmp_path, 20, 21)
    plan = make_plan(41, 4)
    with monkeypatch.context() as patch:
        stop_after(patch, kind, 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            reshard(plan, shards, tmp_path / "out", batches_per_shard=3, memory=1)
    assert not (tmp_path / "out").exists()
    half = sorted(path.name for path in (tmp_path / "out.unfinished").iterdir() if path.name.startswith("shard"))
    assert half == [f"shard-00000{k}.{kind}" for k in range(2)]
    written = [(tmp_path / "out.unfinished" / name).stat().st_mtime_ns for name in half]
    others: list[tuple[dict[str, Any], str]] = [
        ({"order": "plan"}, "order; got 'random' in .*, and 'plan' now"),
        ({"ranks": 2}, "ranks; got 1 in .*, and 2 now"),
        ({"batches_per_shard": 2}, "batches_per_shard; got 3 in .*, and 2 now"),
    ]
    for other, says in others:
        with pytest.raises(ValueError, match=f"^out must hold the parts of the same plan, with the same {says}$"):
            reshard(plan, shards, tmp_path / "out", **{"batches_per_shard": 3, **other})
    made = reshard(plan, shards, tmp_path / "out", batches_per_shard=3)
    assert [(made.folder / name).stat().st_mtime_ns for name in half] == written
    assert sorted(runs(made)) == sorted(plan.batches.tolist())
    assert sorted(path.name for path in made.folder.iterdir()) == sorted([*made.shards, "shards.json"])
    assert not (tmp_path / "out.unfinished").exists()


def test_a_full_disk_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    shards, plan = write_tars(tmp_path, 40), make_plan(40, 4)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large.*shard-000000\.tar"):
            reshard(plan, shards, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "out.unfinished").glob("*shard*"))
    assert sorted(runs(reshard(plan, shards, tmp_path / "out"))) == sorted(plan.batches.tolist())


def test_a_shard_that_changes_meanwhile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = write_tars(tmp_path, 10, 12)
    monkeypatch.setattr(
        "batchcut.scale._reshard.check_counts", lambda *_: write_tar(shards[1], range(10, 22), key="x{place}")
    )
    with pytest.raises(ValueError, match=r"data-1\.tar must stay as it is until all samples are written; got"):
        reshard(make_plan(22, 4), shards, tmp_path / "out")
    assert not (tmp_path / "out").exists()


KILLED = """
import sys, time
from pathlib import Path
from batchcut.scale import _tar_samples, reshard
write = _tar_samples._write_tar
def slowly(*arguments):
    write(*arguments)
    print("written", flush=True)
    time.sleep(0.5)
_tar_samples._write_tar = slowly
folder = Path(sys.argv[1])
reshard(folder / "plan.npz", sorted(folder.glob("data-*.tar")), folder / "out", batches_per_shard=2)
"""


@pytest.mark.slow
def test_a_kill_leaves_whole_shards_and_the_same_call_goes_on(tmp_path: Path) -> None:
    plan = make_plan(80, 4)
    plan.save(tmp_path / "plan.npz")
    shards = write_tars(tmp_path, 40, 40)
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline() == "written\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (tmp_path / "out").exists()
    for path in (tmp_path / "out.unfinished").glob("shard-*"):
        assert len(list(samples_in(path))) == 8
    made = reshard(tmp_path / "plan.npz", shards, tmp_path / "out", batches_per_shard=2)
    assert sorted(runs(made)) == sorted(plan.batches.tolist())
    assert not [path for path in made.folder.iterdir() if path.name.startswith(".")]


MEASURE = """
import re, resource, sys
from pathlib import Path
from batchcut.scale import reshard
folder, kind = Path(sys.argv[1]), sys.argv[2]
def shards(name):
    return sorted((folder / name).glob("*" + kind))
reshard(folder / "small.npz", shards("small"), folder / "before")  # which loads what is needed
held = int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (held + int(sys.argv[3]), -1))
reshard(folder / "plan.npz", shards("large"), folder / "out", memory=int(sys.argv[4]))
"""


def write_large(path: Path, kind: str, count: int, size: int) -> None:
    """Samples of so many bytes that cannot be made fewer."""
    data = [np.random.default_rng(sample).bytes(size) for sample in range(count)]
    if kind == ".parquet":
        table = pyarrow.table({"sample": list(range(count)), "image": data})
        pyarrow.parquet.write_table(table, path.with_suffix(kind), row_group_size=10)
        return
    with webdataset.TarWriter(str(path.with_suffix(kind))) as tar:
        for sample, content in enumerate(data):
            tar.write({"__key__": f"{sample:04}", "txt": f"sample {sample}", "image.bin": content})


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of processes is not told here")
@pytest.mark.parametrize("kind", [".tar", ".parquet"])
def test_memory_stays_within_what_is_given(kind: str, tmp_path: Path) -> None:
    """100 MB of samples, all in one new shard, by a process that may take 40 MB."""
    for name, count, size in (("small", 20, 10), ("large", 500, 200_000)):
        (tmp_path / name).mkdir()
        write_large(tmp_path / name / "data", kind, count, size)
    make_plan(20, 4).save(tmp_path / "small.npz")
    plan = make_plan(500, 10)
    plan.save(tmp_path / "plan.npz")
    command = [sys.executable, "-c", MEASURE, str(tmp_path), kind, str(40_000_000), str(20_000_000)]
    # What is given back is no longer held: what allocators keep for later is not what this is about.
    plain = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    result = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **plain}
    )
    assert result.returncode == 0, result.stderr
    written = tmp_path / "out" / f"shard-000000{kind}"
    assert written.stat().st_size > 100_000_000
    found = list(samples_in(written))
    assert sorted(zip(*[iter(found)] * 10, strict=True)) == sorted(map(tuple, plan.batches.tolist()))


def test_rows_that_grow_are_made_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the files say of their size may be far too little: of words that come again, they keep numbers."""
    words = [f"{'a long word' * 50}{k % 3}" for k in range(400)]
    pyarrow.parquet.write_table(pyarrow.table({"sample": list(range(400)), "text": words}), tmp_path / "a.parquet")
    plan = make_plan(400, 4)
    gathered: list[int] = []
    original = ParquetSampleFiles._gathered

    def noted(files: Any, batches: Any, told: Any) -> Any:
        found = original(files, batches, told)
        gathered.append(found.nbytes)
        return found

    monkeypatch.setattr(ParquetSampleFiles, "_gathered", noted)
    made = reshard(plan, [tmp_path / "a.parquet"], tmp_path / "out", order="plan", memory=60_000)
    assert runs(made) == plan.batches.tolist()
    assert max(gathered) <= 30_000
    assert 7 < len(gathered) < 25


@LEAVES_FILES_OPEN
@pytest.mark.usefixtures("files_left_open")
def test_samples_may_come_again_where_a_plan_repeats_them(tmp_path: Path) -> None:
    batches = np.array([[0, 1], [1, 0], [0, 2]])
    facts: dict[str, Any] = {"group_pairs": 0, "margin_pairs": 0, "losses": np.ones(3), "weights": np.ones(3)}
    base = make_plan(3, 2)
    plan = BatchPlan(
        batches=batches, count=3, method="Any", settings={}, seed=0, epoch=0, temperature=base.temperature,
        drop_last=True, repeats=True, left_over=np.arange(0), seconds=0.0, **facts,
    )  # fmt: skip
    made = reshard(plan, write_tars(tmp_path, 3), tmp_path / "out", order="plan")
    dataset = webdataset.WebDataset(shards_of(made), shardshuffle=False).to_tuple("txt")
    assert [int(text.split()[1]) for (text,) in dataset] == [0, 1, 1, 0, 0, 2]
