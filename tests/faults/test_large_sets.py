"""Bad input and faults of large sets: what is said of them, and that nothing half-made looks whole."""

import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import torch
from tests.scale._shards import write_tar
from tests.scale.conftest import make_pairs

from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, ShardedBank, Sharding
from batchcut.scale import open_pair_files, plan_in_cells
from batchcut.selection import BatchPlan, Ordered, Selector

from ._scene import Fault, cut, flipped, holds, linked, npy_header

P = "select u.npy v.npy --batch-size 4 --parts parts"
NPY = r"v\.npy must be a whole \.npy file of numbers; got one that fails: "


def array(name: str, change: Callable[[Any], Any]) -> Callable[[Path], object]:
    """The array in a file is another."""
    return lambda folder: np.save(folder / name, change(np.load(folder / name)))


def row(number: int, value: float) -> Callable[[Any], Any]:
    """One row holds nothing but this."""
    return lambda side: np.where(np.arange(len(side))[:, None] == number, np.float32(value), side)


def begun(asked: str) -> Callable[[Path], object]:
    """There is a folder of parts already."""

    def damage(folder: Path) -> None:
        (folder / "parts").mkdir()
        (folder / "parts" / "asked.json").write_text(asked)

    return damage


def column(name: str, of: str, kind: str) -> Callable[[Path], object]:
    """A column of a parquet file gets another type."""

    def damage(folder: Path) -> None:
        table = pyarrow.parquet.read_table(folder / name)
        changed = table.set_column(table.column_names.index(of), of, table.column(of).cast(kind))
        pyarrow.parquet.write_table(changed, folder / name)

    return damage


PARTS = [
    Fault("select u.npy gone.npy --batch-size 4 --parts parts", r"gone\.npy: no such file; check the path"),
    Fault(
        "select x.npz --batch-size 4 --parts parts", r"x\.npz must be \.npy, \.parquet, \.safetensors or the file of"
    ),
    Fault(
        P, r"v\.npy must have the shape of the other side, \(24, 6\); got \(20, 6\)", array("v.npy", lambda v: v[:20])
    ),
    Fault(
        P, r"v\.npy must have the shape of the other side, \(24, 6\); got \(24, 5\)", array("v.npy", lambda v: v[:, :5])
    ),
    Fault(P, NPY, cut("v.npy")),
    Fault(P, NPY, holds("v.npy", npy_header("(1000000000000, 1000000)"))),
    Fault(P, r"u in .*u\.npy must have no zero rows; got zeros in", array("u.npy", row(7, 0)), leaves=("parts",)),
    Fault(
        P,
        r"v in .*v\.npy must hold finite numbers; got nan in r",
        array("v.npy", row(9, np.nan)),
        leaves=("parts",),
    ),
    Fault(
        f"{P} --groups groups.npy",
        r"groups\.npy must hold one group for each of 24 samples; got shape \(3,\)",
        lambda folder: np.save(folder / "groups.npy", np.arange(3)),
    ),
    Fault(f"{P} --groups groups.txt", r"--groups must be a \.npy file with --parts; got groups\.txt"),
    Fault(
        P,
        r"--parts must be a folder; got parts, a link that leads nowhere",
        lambda folder: (folder / "parts").symlink_to("nowhere"),
    ),
    Fault(f"{P[:-5]}both", r"--parts must be empty, or hold the parts of the same plan; got both"),
    Fault(f"{P[:-5]}run/parts", r"--parts must lie outside the run in .*run, which is whole as it is; got run/parts"),
    Fault(
        P,
        r"--parts must hold the parts of the same plan, with the same format; got None in parts, and 'batchcut parts 2",
        begun("{}"),
        leaves=("parts/.lock",),
    ),
    Fault(
        P,
        r"parts/asked\.json must be JSON, undamaged; got",
        begun("["),
        leaves=("parts/.lock",),
    ),
    Fault(
        f"{P} -o plan.parquet --shards data-0.tar",
        r"--shards must hold the 24 samples of which there are embeddings; g",
    ),
]

R = "reshard plan.npz data-0.tar data-1.tar -o new"
TABLE = "reshard plan.parquet data-0.tar data-1.tar -o new"
TAR = r"data-1\.tar must be a whole WebDataset tar, not compressed; got one that fails: "

RESHARD = [
    Fault("reshard plan.npz -o new", r"SHARD must name at least one file"),
    Fault("reshard nowhere.npz data-0.tar -o new", r"nowhere\.npz: no such file; check the path"),
    Fault("reshard plan.npz nowhere.tar -o new", r"nowhere\.tar: no such file; check the path"),
    Fault(
        "reshard plan.npz data-0.tar -o new", r"PLAN must be a plan of the 10 samples in these files \(data-0\.tar 10\)"
    ),
    Fault(
        "reshard plan.npz data-0.tar rows-1.parquet -o new", r"rows-1\.parquet must be a \.tar or a \.parquet file, as"
    ),
    Fault("reshard plan.npz x.npz -o new", r"x\.npz must be a \.tar or a \.parquet file, as all other shards are; got"),
    Fault("reshard x.npz data-0.tar data-1.tar -o new", r"x\.npz must be a plan saved by BatchPlan\.save; got"),
    Fault(
        "reshard rows-0.parquet data-0.tar -o new", r"rows-0\.parquet must be a plan written by write_plan_table; got"
    ),
    Fault(f"{R[:-3]}both", r"--out must be a new folder, or an empty one; got both"),
    Fault(f"{R[:-3]}u.npy", r"--out must be a new folder, or an empty one; got u\.npy"),
    Fault(f"{R[:-3]}run/new", r"--out must lie outside the run in .*run, which is whole as it is; got run/new"),
    Fault(f"{R} --ranks 0", r"--ranks must be at least 1; got 0"),
    Fault(f"{R} --ranks 7", r"--ranks must be at most the number of batches, 6; got 7"),
    Fault(f"{R} --ranks 3 --mode split", r"--ranks must divide the batch size 4 where batches are split; got 3"),
    Fault(f"{R} --batches-per-shard 0", r"--batches-per-shard must be at least 1; got 0"),
    Fault(f"{R} --memory 0", r"--memory must be at least 1; got 0"),
    Fault(R, TAR, cut("data-1.tar", 0.2)),
    Fault(R, TAR, holds("data-1.tar", b"")),
    Fault(R, r"plan\.npz must be a plan saved by BatchPlan\.save; got", flipped("plan.npz")),
    Fault(
        R, r"--out must be empty, or hold the parts of the same plan; got new\.unf", linked("new.unfinished", "both")
    ),
    Fault(TABLE, r"plan\.parquet must be a plan written by write_plan_table; got", cut("plan.parquet")),
    Fault(
        "reshard plan.parquet data-1.tar data-0.tar -o new",
        r"data-1\.tar must be data-0\.tar with 10 samples, for which plan\.parquet was written; got data-1",
    ),
    Fault(
        "reshard plan.parquet data-0.tar -o new",
        r"SHARD must be the 2 files that plan\.parquet was written for; got 1, without data-1\.tar",
    ),
    Fault(
        "reshard plan.npz rows-0.parquet rows-1.parquet -o new",
        r"rows-1\.parquet must be a whole \.parquet file; got",
        cut("rows-1.parquet"),
    ),
    Fault(
        "reshard plan.npz rows-0.parquet x.parquet -o new",
        r"x\.parquet must have the columns of rows-0\.parquet: sample \(int64\), text \(string\); got sample",
        lambda folder: shutil.copy(folder / "plan.parquet", folder / "x.parquet"),
    ),
    Fault(
        TABLE,
        r"plan\.parquet must be a plan written by write_plan_table; got one that fails: batch as double, not int64",
        column("plan.parquet", "batch", "float64"),
    ),
    Fault(
        "reshard plan.npz rows-0.parquet rows-1.parquet -o new",
        r"rows-0\.parquet must have columns that pyarrow can put in another order; got text \(string_view\)",
        lambda folder: [column(f"rows-{k}.parquet", "text", "string_view")(folder) for k in range(2)],
    ),
    Fault(
        "select x.npz --batch-size 4 --method shuffle -o new.parquet --shards data-0.tar data-1.tar",
        r"data-1\.tar must have keys in UTF-8, as texts of a table are; got '0000\\udce4'",
        lambda folder: write_tar(folder / "data-1.tar", range(14), key="{place:04}\udce4"),
    ),
]


@pytest.mark.parametrize("fault", [*PARTS, *RESHARD], ids=str)
def test_a_fault_is_one_line_and_leaves_the_disk_as_it_was(
    fault: Fault, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault.check(folder, capsys)


def shards(at: Path, *, rows: tuple[int, ...] = (40, 40), widths: tuple[int, ...] = (8, 8)) -> dict[str, list[Path]]:
    """Some `.npy` files of both sides."""
    found: dict[str, list[Path]] = {"u": [], "v": []}
    for number, (count, width) in enumerate(zip(rows, widths, strict=True)):
        for side, values in zip("uv", make_pairs(count, dim=width, seed=number), strict=True):
            found[side].append(at / f"{side}{number}.npy")
            np.save(found[side][-1], values)
    return found


def planned(at: Path, between: Callable[[], object] = lambda: None, **given: Any) -> BatchPlan:
    """A plan of two shards, before which something happens to them."""
    files = shards(at)
    pairs = open_pair_files(files["u"], files["v"])
    between()
    return plan_in_cells(pairs, parts=at / "parts", batch_size=8, **given)


class Fails(Selector):
    """Cannot plan."""

    def choose(self, request: Any) -> Any:
        raise ArithmeticError("no plan today")


def with_parts(at: Path, damage: Callable[[Path], object]) -> None:
    """A plan that stopped before its cells were planned goes on with damaged parts."""
    with pytest.raises(ArithmeticError):
        planned(at, selector=Fails())
    damage(at / "parts")
    pairs = open_pair_files([at / "u0.npy", at / "u1.npy"], [at / "v0.npy", at / "v1.npy"])
    plan_in_cells(pairs, parts=at / "parts", batch_size=8, selector=Fails())


def without_counts(parts: Path) -> None:
    """Blocks are to be written once more, by centres that are not whole."""
    cut("centers.npy", 0)(parts)
    (parts / "blocks" / "000000.counts.npy").unlink()


def share(rank: int = 0, n: int = 12, **given: Any) -> ShardedBank:
    return ShardedBank(n, 4, sharding=Sharding(rank=rank, world_size=2), **given)


def alone(**given: Any) -> ShardedBank:
    return ShardedBank(12, 4, sharding=Sharding(), **given)


def sampler(bank: ShardedBank, **given: Any) -> PlannedBatchSampler:
    bank.record(torch.arange(12), *torch.from_numpy(np.random.default_rng(0).standard_normal((2, 12, 4))).float())
    return PlannedBatchSampler(bank, **{"batch_size": 4, "shuffled_epochs": 0, **given})


WHOLE = "must be whole, as it was written; got one that fails: "
FAULTS: list[tuple[Callable[[Path], object], type[Exception], str]] = [
    (lambda at: open_pair_files([at / "gone.npy"], [at / "v.npy"]), FileNotFoundError, r"no such file.*gone\.npy"),
    (
        lambda at: open_pair_files(*shards(at, widths=(8, 9)).values()),
        ValueError,
        r"u1\.npy must be 8 wide, as .*u0\.npy is; got 9$",
    ),
    (
        lambda at: planned(at, lambda: np.save(at / "u1.npy", make_pairs(39)[0])),
        ValueError,
        r"u1\.npy must have the shape it had, \(40, 8\); got \(39, 8\) and \(40, 8\)$",
    ),
    (lambda at: planned(at, lambda: (at / "v1.npy").unlink()), FileNotFoundError, r"No such file.*v1\.npy"),
    (
        lambda at: (planned(at), planned(at)),
        ValueError,
        r"^parts must hold the parts of the same plan, with the same files; got \['.*\.npy', \d+, \d+\] in .*parts",
    ),
    (lambda at: with_parts(at, cut("blocks/000000.rows.npy")), ValueError, rf"000000\.rows\.npy {WHOLE}"),
    (lambda at: with_parts(at, without_counts), ValueError, rf"centers\.npy {WHOLE}"),
    (
        lambda at: with_parts(at, lambda parts: (parts / "blocks/000001.rows.npy").unlink()),
        ValueError,
        r"^parts must be one that all workers see, and that nobody else changes; got no .*000001\.rows\.npy$",
    ),
    (lambda _: ShardedBank(12, sharding=3), TypeError, r"^sharding must be a Sharding; got int$"),  # type: ignore[arg-type]
    (lambda _: share(n=1), ValueError, r"^n must be at least 2; got 1$"),
    (lambda _: ShardedBank(3, sharding=Sharding(world_size=4)), ValueError, r"^n must be at least 4; got 3$"),
    (lambda _: share(cell_samples=1), ValueError, r"^cell_samples must be at least 2; got 1$"),
    (lambda _: share(dtype=torch.bfloat16), ValueError, r"^dtype must be torch.float32 or torch.float16; got torch.bf"),
    (
        lambda _: share().record(torch.tensor([12]), *torch.ones(2, 1, 4)),
        ValueError,
        r"^index must lie in 0 to 11; got 12",
    ),
    (lambda _: share().record(torch.tensor([1]), *torch.ones(2, 1, 5)), ValueError, r"^u must have shape \(1, 4\)"),
    (lambda _: share().join(), ValueError, r"process group"),
    (
        lambda _: share().load_state_dict({}),
        ValueError,
        r"^state\['held'\] must be that of samples 0 to 6 of 12, as this process has kept it; got None$",
    ),
    (
        lambda _: share().load_state_dict(share(1).state_dict()),
        ValueError,
        r"^state\['held'\] must be that of samples 0 to 6 of 12, .*; got \[6, 12, 12\]$",
    ),
    (
        lambda _: share().load_state_dict(share(n=13).state_dict()),
        ValueError,
        r"^state\['held'\] must be that of samples 0 to 6 of 12, .*; got \[0, 6, 13\]$",
    ),
    (
        lambda at: (share(path=at / "a"), shutil.copy(at / "a", at / "b"), share(1, path=at / "b")),
        ValueError,
        r"^path must be that of samples 6 to 12 of 12, as this process .*; got one from sample 0 on, of 12, in .*b$",
    ),
    (
        lambda at: (share(path=at / "a"), shutil.copy(at / "a", at / "b"), share(n=13, path=at / "b")),
        ValueError,
        r"^path must be that of samples 0 to 6 of 13, as this process .*; got one from sample 0 on, of 12, in .*b$",
    ),
    (
        lambda at: (share(path=at / "a"), shutil.copy(at / "a", at / "b"), EmbeddingBank(6, 4, path=at / "b")),
        ValueError,
        r"^path must hold 296 bytes, as a whole bank of this size does; got 312 in .*b$",
    ),
    (
        lambda at: (share(path=at / "a"), shutil.copy(at / "a", at / "b"), open_pair_files(at / "b")),
        ValueError,
        r"b must hold an embedding of each of its 6 samples; got none of 6$",
    ),
    (lambda at: share(path=at / "a", n=1 << 50), OSError, r"No space left on device: '.*/a'$"),
    (lambda at: EmbeddingBank(1 << 50, 4, path=at / "a"), OSError, r"No space left on device: '.*/a'$"),
    (lambda _: sampler(alone(), plan_ahead=0.1), ValueError, r"^plan_ahead must be 0 with a ShardedBank, which all"),
    (
        lambda _: list(sampler(alone(), selector=Ordered(k=2))),
        ValueError,
        r"^selector must be one that takes each sample",
    ),
    (lambda _: list(sampler(alone(), selector=Fails())), ArithmeticError, r"^no plan today$"),
    (lambda _: sampler(alone(), groups=[1]), ValueError, r"^groups must .*12.*; got .*1"),
    (
        lambda _: list(sampler(share())),
        ValueError,
        r"^sharding must be that of the bank, rank=0 of world_size=2, with t",
    ),
]


@pytest.mark.parametrize(("act", "error", "text"), FAULTS, ids=[text for _, _, text in FAULTS])
def test_a_fault_is_told_by_its_name(
    act: Callable[[Path], object], error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text) as caught:
        act(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "parts" / "plan.npz").exists() or "same plan" in text


@pytest.mark.parametrize("size", [64, 500, 1500, 2500])
def test_a_full_disk_is_named_and_the_same_call_goes_on(size: int, tmp_path: Path) -> None:
    expected = planned(tmp_path)
    shutil.rmtree(tmp_path / "parts")
    pairs = open_pair_files([tmp_path / "u0.npy", tmp_path / "u1.npy"], [tmp_path / "v0.npy", tmp_path / "v1.npy"])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*/parts/.*'"):
            plan_in_cells(pairs, parts=tmp_path / "parts", batch_size=8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "parts" / "plan.npz").exists()
    assert not list((tmp_path / "parts").rglob("*.unfinished"))
    assert plan_in_cells(pairs, parts=tmp_path / "parts", batch_size=8) == expected
