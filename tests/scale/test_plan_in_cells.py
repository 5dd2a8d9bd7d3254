"""A plan by cells: every sample once, sizes exact, groups apart, the same on any workers and after any interruption."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scale.conftest import WritePairs, make_pairs

from batchcut.scale import PairFiles, open_pair_files, plan_in_cells
from batchcut.scale import _plan_in_cells as module
from batchcut.selection import MOST_IN_CELL, BatchPlan, Cut, Ordered, Shuffle

Array = npt.NDArray[Any]

pytestmark = pytest.mark.usefixtures("small_cells")


def plan_of(pairs: PairFiles, folder: Path, **given: Any) -> BatchPlan:
    return plan_in_cells(pairs, parts=folder, **{"batch_size": 16, **given})


def check_covers(plan: BatchPlan, count: int, batch_size: int, *, drop_last: bool) -> None:
    out = count % batch_size if drop_last else 0
    used = plan.batches[plan.batches >= 0]
    assert len(plan.left_over) == out
    assert sorted([*used.tolist(), *plan.left_over.tolist()]) == list(range(count))
    assert len(plan) == -(-(count - out) // batch_size)


def test_a_plan_of_several_shards_blocks_and_cells(write_pairs: WritePairs, tmp_path: Path) -> None:
    plan = plan_of(write_pairs(130, 7, 400), tmp_path / "parts")
    check_covers(plan, 537, 16, drop_last=True)
    assert plan.settings["cells"] == 5
    assert plan.method == "Cut"
    sides = make_pairs(537)
    assert plan.mean_loss > 1.5 * Shuffle()(*sides, batch_size=16).mean_loss
    whole = Cut()(*sides, batch_size=16)
    assert plan.mean_loss > 0.9 * whole.mean_loss
    assert np.array_equal(plan.left_over, whole.left_over)


def test_losses_are_those_of_the_batches(write_pairs: WritePairs, tmp_path: Path) -> None:
    pairs = write_pairs(300)
    plan = plan_of(pairs, tmp_path / "parts", temperature=0.2)
    u, v = (np.load(path).astype(np.float64) for path in pairs.shards[0].paths)
    u, v = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (u, v))
    for row, loss in zip(plan.batches, plan.losses, strict=True):
        scores = u[row] @ v[row].T / 0.2
        rows = np.logaddexp.reduce(scores, axis=1) + np.logaddexp.reduce(scores, axis=0) - 2 * scores.diagonal()
        assert loss == pytest.approx(rows.mean() / 2, rel=1e-4)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 150), min_size=1, max_size=4).filter(lambda sizes: sum(sizes) >= 40),
    batch_size=st.integers(2, 40),
    seed=st.integers(0, 3),
    drop_last=st.booleans(),
    kinds=st.integers(0, 60),
)
def test_every_sample_once_and_groups_apart(
    write_pairs: WritePairs,
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    batch_size: int,
    seed: int,
    drop_last: bool,
    kinds: int,
) -> None:
    count = sum(sizes)
    rng = np.random.default_rng(seed)
    groups = np.where(rng.random(count) < 0.3, rng.integers(0, kinds, count), np.arange(count) + 100) if kinds else None
    pairs = write_pairs(*sizes, groups=groups, seed=seed)
    folder = tmp_path_factory.mktemp("parts")
    full = (count - (count % batch_size)) // batch_size
    most = 0 if groups is None else max(Counter(groups.tolist()).values())
    if most > full:
        return
    plan = plan_of(pairs, folder / "new", batch_size=batch_size, seed=seed, drop_last=drop_last)
    check_covers(plan, count, batch_size, drop_last=drop_last)
    assert plan.group_pairs == 0
    if groups is not None:
        for row in plan:
            assert len(set(groups[row].tolist())) == len(row)


def test_many_blocks_and_many_samples_that_change_cells_need_few_open_files(
    write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchcut.scale._memory.MOST_IN_BLOCK", 20)
    groups = np.arange(2000) + 1000
    u, _ = make_pairs(2000)
    near = np.argsort(-(u.astype(float) @ u[0].astype(float)))[:500]  # in few cells, which have 8 batches each
    groups[near] = np.arange(500) // 100
    pairs = write_pairs(2000, groups=groups)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = max(int(handle.name) for handle in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 30, before[1]))
    try:
        plan = plan_of(pairs, tmp_path / "parts")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    check_covers(plan, 2000, 16, drop_last=True)
    assert plan.group_pairs == 0


def test_what_a_killed_call_has_left_is_removed_by_the_next(write_pairs: WritePairs, tmp_path: Path) -> None:
    pairs = write_pairs(300)
    plan = plan_of(pairs, tmp_path / "parts")
    left = tmp_path / "parts" / "blocks" / "000000.rows.npy"
    left.parent.mkdir()
    left.touch()
    assert plan_of(pairs, tmp_path / "parts") == plan
    assert not left.parent.exists()


def test_a_group_that_fills_a_cell_goes_to_the_others(write_pairs: WritePairs, tmp_path: Path) -> None:
    u, _ = make_pairs(512, clusters=4)
    near = np.argsort(-(u.astype(float) @ u[0].astype(float)))[:30]  # all in one cell, which has 8 batches
    groups = np.arange(512) + 1000
    groups[near] = 7
    plan = plan_of(write_pairs(512, groups=groups, clusters=4), tmp_path / "parts")
    assert plan.settings["cells"] == 4
    assert plan.group_pairs == 0
    assert [int((groups[row] == 7).sum()) for row in plan.batches].count(1) == 30


def test_a_group_larger_than_all_batches_is_counted(write_pairs: WritePairs, tmp_path: Path) -> None:
    groups = np.where(np.arange(160) < 40, 0, np.arange(160))
    with pytest.warns(RuntimeWarning, match=r"\d+ pairs of one group share a batch"):
        plan = plan_of(write_pairs(160, groups=groups), tmp_path / "parts")
    assert plan.group_pairs >= 40 * 4 // 2 - 30  # 40 in 10 batches are four in each
    check_covers(plan, 160, 16, drop_last=True)


def test_epochs_leave_out_others_and_seeds_differ(write_pairs: WritePairs, tmp_path: Path) -> None:
    pairs = write_pairs(327)
    plans = [plan_of(pairs, tmp_path / str(k), seed=k // 2, epoch=k % 2) for k in range(4)]
    assert not set(plans[0].left_over) & set(plans[1].left_over)
    assert not np.array_equal(plans[0].batches, plans[2].batches)


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_workers_and_threads_do_not_matter(write_pairs: WritePairs, tmp_path: Path, backend: str) -> None:
    groups = np.random.default_rng(0).integers(0, 40, 610)
    pairs = write_pairs(300, 310, groups=groups)
    alone = plan_of(pairs, tmp_path / "alone", selector=Cut(threads=1))
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert plan_of(pairs, tmp_path / "two") == alone
        assert plan_of(pairs, tmp_path / "jobs", n_jobs=3, selector=Cut(threads=2)) == alone
    assert plan_of(pairs, tmp_path / "threads", selector=Cut(threads=3)) == alone


def test_workers_counted_by_numpy(write_pairs: WritePairs, tmp_path: Path) -> None:
    count: Any = np.int64(1)
    pairs = write_pairs(300)
    assert plan_of(pairs, tmp_path / "one", n_jobs=count) == plan_of(pairs, tmp_path / "other", n_jobs=1)


def test_shards_do_not_matter(write_pairs: WritePairs, tmp_path: Path) -> None:
    """Where they are cut into the same blocks."""
    one = plan_of(write_pairs(400), tmp_path / "one")
    many = plan_of(write_pairs(100, 100, 100, 100), tmp_path / "many")
    assert one == many


def test_tasks_know_whole_paths(write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are not where the first process is."""
    expected = plan_of(write_pairs(300), tmp_path / "parts")
    monkeypatch.chdir(tmp_path / "files")
    pairs = open_pair_files("u0.npy", "v0.npy")
    plan_cell = getattr(module, "plan_cell")  # noqa: B009 - mypy knows another owner

    def elsewhere(*args: Any) -> None:
        with chdir("/"):
            plan_cell(*args)

    monkeypatch.setattr(module, "plan_cell", elsewhere)
    assert plan_of(pairs, Path("parts")) == expected


def test_another_selector(write_pairs: WritePairs, tmp_path: Path) -> None:
    plan = plan_of(write_pairs(300), tmp_path / "parts", selector=Shuffle())
    assert plan.method == "Shuffle"
    check_covers(plan, 300, 16, drop_last=True)


def counting(original: Any, calls: list[object], stop_at: int | None = None) -> Any:
    """The function, with its calls noted, of which one is interrupted."""

    def noted(*args: Any, **more: Any) -> None:
        calls.append(args)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        original(*args, **more)

    return noted


def test_a_plan_that_was_interrupted_goes_on(
    write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = write_pairs(600)
    expected = plan_of(pairs, tmp_path / "whole")
    for step, last in (("draw_sums", 3), ("write_block", 2), ("plan_cell", 3)):
        original, calls = getattr(module, step), list[object]()
        monkeypatch.setattr(module, step, counting(original, calls, stop_at=last))
        with pytest.raises(KeyboardInterrupt):
            plan_of(pairs, tmp_path / step)
        again = list[object]()
        monkeypatch.setattr(module, step, counting(original, again))
        assert plan_of(pairs, tmp_path / step) == expected
        monkeypatch.setattr(module, step, original)
        assert len(calls) == last
        assert last - 1 + len(again) == {"draw_sums": 6, "write_block": 6, "plan_cell": 5}[step]


def test_a_finished_folder_gives_its_plan_again(
    write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = write_pairs(300)
    plan = plan_of(pairs, tmp_path / "parts")
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == [".lock", "asked.json", "plan.npz"]
    monkeypatch.setattr(module, "plan_cell", None)
    assert plan_of(pairs, tmp_path / "parts") == plan == BatchPlan.load(tmp_path / "parts" / "plan.npz")


def test_progress_rises_to_one(write_pairs: WritePairs, tmp_path: Path) -> None:
    told: list[float] = []
    plan_of(write_pairs(600), tmp_path / "parts", progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len({round(share, 3) for share in told}) > 8


def test_errors_in_tasks_are_their_own(write_pairs: WritePairs, tmp_path: Path) -> None:
    pairs = write_pairs(250)
    u = np.load(pairs.shards[0].paths[0])
    u[170] = 0
    np.save(pairs.shards[0].paths[0], u)
    rule = r"^u in .*u0\.npy must have no zero rows; got zeros in row 170$"
    with pytest.raises(ValueError, match=rule):
        plan_of(pairs, tmp_path / "parts")
    assert not (tmp_path / "parts" / "plan.npz").exists()


def test_files_that_are_written_anew_meanwhile_make_no_plan(
    write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = write_pairs(100, 150)
    path = Path(pairs.shards[1].paths[0])
    plan_cell = getattr(module, "plan_cell")  # noqa: B009 - mypy knows another owner

    def write_anew(cell: Any, *args: Any) -> None:
        plan_cell(cell, *args)
        os.utime(path, ns=(1, 1))

    monkeypatch.setattr(module, "plan_cell", write_anew)
    for _ in range(2):  # nor does the same call go on with parts of both
        with pytest.raises(ValueError, match=r"^parts must hold .* with the same files; got \['.*u1\.npy', .* now"):
            plan_of(pairs, tmp_path / "parts")
        assert not (tmp_path / "parts" / "plan.npz").exists()


def test_the_batches_are_mapped_and_joined_in_little_memory(
    write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte for each sample, and little else, where the batches alone take eight."""
    monkeypatch.setattr("batchcut.selection._plan_checks._SAMPLES_AT_ONCE", 1 << 14)
    peaks: list[int] = []
    joined = module._joined

    def watched(job: Any, cells: Any, *args: Any) -> BatchPlan:
        many = [replace(cell, number=k, folder=str(tmp_path)) for k, cell in enumerate(cells * 50)]
        count = len(job.pairs) * 50
        for k, cell in enumerate(many):
            found = module._part(cells[k % len(cells)].path)
            facts = np.array(json.dumps(found.facts))
            shifted = found.batches + k // len(cells) * len(job.pairs)
            np.savez(cell.path, **found._asdict() | {"batches": shifted, "facts": facts})
        job = replace(job, pairs=PairFiles(job.pairs.shards * 50))
        tracemalloc.start()
        plan = joined(job, many, *args)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert plan.count == count
        return joined(replace(job, pairs=PairFiles(job.pairs.shards[:1])), cells, *args)

    monkeypatch.setattr(module, "_joined", watched)
    monkeypatch.setattr("batchcut.scale._memory.MOST_IN_CELL", 4096)
    plan = plan_of(write_pairs(16_384), tmp_path / "parts", selector=Shuffle(), batch_size=128)
    assert isinstance(plan.batches, np.memmap)
    assert peaks[0] < 3 * 50 * 16_384


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"pairs": "u.npy"}, TypeError, "pairs must be PairFiles, by open_pair_files; got str"),
        ({"parts": 3}, TypeError, "parts must be a path; got int"),
        ({"batch_size": 1}, ValueError, "batch_size must be at least 2; got 1"),
        ({"batch_size": 301}, ValueError, "batch_size must be at most the number of samples, 300; got 301"),
        ({"seed": -1}, ValueError, "seed must be at least 0; got -1"),
        ({"epoch": 0.5}, TypeError, "epoch must be an integer; got float"),
        ({"drop_last": 1}, TypeError, "drop_last must be True or False; got int"),
        ({"temperature": 0}, ValueError, "temperature must be finite and above 0; got 0"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be None or an integer other than 0; got 0"),
        ({"n_jobs": "two"}, TypeError, "n_jobs must be None or an integer other than 0; got str"),
        ({"progress": 1}, TypeError, "progress must be None or a function of one number; got int"),
        ({"selector": Cut}, ValueError, r"selector must be made first, as by Cut\(\); got the class Cut"),
        ({"selector": Ordered(k=4)}, ValueError, "selector must be one that takes each sample once; got Ordered"),
        ({"memory": 1000}, ValueError, "memory must be at least 231211008 bytes for batches of 16, 8 wide; got 1000"),
        ({"memory": 1e9}, TypeError, "memory must be an integer; got float"),
    ],
)
def test_bad_arguments(
    write_pairs: WritePairs, tmp_path: Path, given: dict[str, Any], error: type[Exception], text: str
) -> None:
    call = {"pairs": write_pairs(300), "parts": tmp_path / "parts", "batch_size": 16, **given}
    with pytest.raises(error, match=text):
        plan_in_cells(call.pop("pairs"), **call)
    assert not (tmp_path / "parts").exists()


def test_pools_that_take_more_memory_than_is_given_are_refused(
    write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchcut.scale._memory.MOST_IN_CELL", MOST_IN_CELL)
    call: dict[str, Any] = {"parts": tmp_path / "parts", "batch_size": 16, "selector": Cut(pool=500)}
    with pytest.raises(ValueError, match=r"^memory must be at least 576000000 bytes .* in pools of 8000 samples; got"):
        plan_in_cells(write_pairs(9000), **call, memory=300_000_000)
    assert not (tmp_path / "parts").exists()


SCRIPT = """
import sys
from batchcut.scale import _memory, open_pair_files, plan_in_cells
_memory.MOST_IN_CELL = 16384
plan_in_cells(open_pair_files(sys.argv[1], sys.argv[2]), parts=sys.argv[3], batch_size=64,
              progress=lambda share: print(share, flush=True))
"""


def start(pairs: PairFiles, folder: Path, after: float) -> "subprocess.Popen[str]":
    """Plans in a process of its own, until it has done a share of the work."""
    command = [sys.executable, "-c", SCRIPT, *pairs.shards[0].paths, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if float(line) >= after:
            break
    return process


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("after", [0.05, 0.3])
def test_ctrl_c_is_answered_within_a_second(write_pairs: WritePairs, tmp_path: Path, after: float) -> None:
    pairs = write_pairs(65_536, dim=128)
    process = start(pairs, tmp_path / "parts", after)
    time.sleep(0.3)
    sent = time.perf_counter()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert time.perf_counter() - sent < 1
    assert "KeyboardInterrupt" in errors
    assert not (tmp_path / "parts" / "plan.npz").exists()


@pytest.mark.slow
def test_a_killed_plan_goes_on_where_it_was(
    write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchcut.scale._memory.MOST_IN_CELL", 16384)
    monkeypatch.setattr("batchcut.scale._memory.MOST_IN_BLOCK", 262_144)
    pairs = write_pairs(65_536, dim=16)
    expected = plan_of(pairs, tmp_path / "new", batch_size=64)
    process = start(pairs, tmp_path / "parts", 0.4)
    process.kill()
    process.communicate()
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts" / "cells").glob("*.npz")}
    assert done
    seen: dict[Path, int] = {}
    original = module._joined

    def joined(*args: Any) -> BatchPlan:
        seen.update({path: path.stat().st_mtime_ns for path in done})
        return original(*args)

    monkeypatch.setattr(module, "_joined", joined)
    assert plan_of(pairs, tmp_path / "parts", batch_size=64) == expected
    assert seen == done


MEASURE = """
import re, resource, sys
import numpy as np
from batchcut.scale import open_pair_files, plan_in_cells
from batchcut.selection import Cut

rows = np.random.default_rng(0).standard_normal((2, 9000, 16)).astype(np.float32)
Cut(threads=2)(*rows, batch_size=32)  # which compiles what is needed
held = int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) * 1024
memory = int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_DATA, (held + memory, -1))
groups = sys.argv[5] if len(sys.argv) > 5 else None
pairs = open_pair_files(*sys.argv[1:3], groups=groups)
plan = plan_in_cells(pairs, parts=sys.argv[3], batch_size=64, memory=memory, selector=Cut(threads=1))
print(plan.settings["cells"])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of processes is not told here")
@pytest.mark.parametrize(
    ("count", "dim", "memory", "words"),
    [
        (150_000, 256, 240_000_000, False),  # 150 MB in float16, of which the search needs twice as much in float32
        (40_000, 768, 231_300_000, False),  # the least that is taken, and cells that are full
        (150_000, 16, 231_300_000, True),  # groups by words of 128 MB
    ],
    ids=["many", "wide", "words"],
)
def test_memory_stays_within_what_is_given(
    count: int, dim: int, memory: int, words: bool, write_pairs: WritePairs, tmp_path: Path
) -> None:
    pairs = write_pairs(count, dim=dim, clusters=500)
    command = [sys.executable, "-c", MEASURE, *pairs.shards[0].paths, str(tmp_path / "parts"), str(memory)]
    if words:
        np.save(tmp_path / "words.npy", np.array([f"{'x' * 200}{row // 3:014}" for row in range(count)]))
        command.append(str(tmp_path / "words.npy"))
    limited = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=limited)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 1
    check_covers(BatchPlan.load(tmp_path / "parts" / "plan.npz"), count, 64, drop_last=True)


MEASURE_PARQUET = """
import re, resource, sys
from batchcut.scale import open_pair_files, plan_in_cells

small, large, parts, memory = *sys.argv[1:4], int(sys.argv[4])
plan_in_cells(open_pair_files(small), parts=parts + "-small", batch_size=64)  # which loads and compiles what is needed
held = int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (held + memory, -1))
plan_in_cells(open_pair_files(large), parts=parts, batch_size=64, memory=memory)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of processes is not told here")
@pytest.mark.parametrize("row_group", [20_000, 100_000])
def test_parquet_stays_within_the_memory_given(row_group: int, tmp_path: Path) -> None:
    """400 MB of embeddings in float64, in 240 MB; by the system's pool, since Arrow's own takes memory in advance."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    u, v = (side.astype(np.float64) for side in make_pairs(100_000, dim=256, clusters=500))
    for name, count in (("small", 2000), ("large", 100_000)):
        sides = {side: pyarrow.array(x[:count].ravel()) for side, x in (("u", u), ("v", v))}
        table = {side: pyarrow.FixedSizeListArray.from_arrays(values, 256) for side, values in sides.items()}
        parquet.write_table(pyarrow.table(table), tmp_path / f"{name}.parquet", row_group_size=row_group)
    files = [str(tmp_path / name) for name in ("small.parquet", "large.parquet", "parts")]
    limited = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-c", MEASURE_PARQUET, *files, str(240_000_000)]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **limited})
    assert result.returncode == 0, result.stderr
