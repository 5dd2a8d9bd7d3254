"""10,000 damaged files for each reader: each is read, or refused by one line that names it."""

import gzip
import io
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from PIL import Image
from safetensors.numpy import save
from tests.data._make import write_cifar100, write_idx
from tests.report._folders import write_run

from batchcut._progress import silent
from batchcut.data import load, open_arrays
from batchcut.data._fetch import extract
from batchcut.data._images import read_images
from batchcut.data._published import read_idx
from batchcut.data._unpickle import load_pickle
from batchcut.report import SearchIndex, SearchTower, read_search, rounded, write_search
from batchcut.report._page import render
from batchcut.report._run import read_run
from batchcut.report._samples import read_texts
from batchcut.sampling import EmbeddingBank, ShardedBank, Sharding
from batchcut.scale import open_pair_files, read_plan_table, write_plan_table
from batchcut.scale._sample_files import open_sample_files
from batchcut.scale._tar_samples import tar_samples
from batchcut.selection import BatchPlan, Cut
from batchcut.training import config_of, read_toml, recipe, to_toml
from batchcut.training._checkpoint import Checkpoint, load_checkpoint, save_checkpoint

pytestmark = pytest.mark.slow

FILES = 10_000
U = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)
TELLING = [
    b"\xff" * 8, b"\x00" * 8, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\x7f", b"-1", b"9" * 30, b"1e999",
    b"NaN", b"null", b"[" * 2000, b"{", b"\"", b"\n", b"\xe2\x80\xa8", b"\x0c", b"'|O'", b"(10000000000, 4)", b"true",
]  # fmt: skip

Read = Callable[[Path], object]
Target = tuple[Read, Callable[[Path], list[Path]]]
"""What reads a folder, and what writes one whole and names the files in it that are to be damaged."""


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """The content after up to four changes: bytes that are others, missing, doubled, moved or of a telling kind."""
    data = bytearray(content)
    for _ in range(int(random.integers(1, 5))):
        at, length = int(random.integers(0, len(data) + 1)), int(2 ** random.integers(0, 7))
        kind = int(random.integers(0, 7))
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(random.integers(0, 8))
        elif kind == 1:
            data[at : at + length] = random.bytes(min(length, len(data) - at))
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at:at] = data[at : at + length]
        elif kind == 5:
            told = TELLING[int(random.integers(0, len(TELLING)))]
            data[at : at + len(told)] = told
        else:
            data[at:at] = TELLING[int(random.integers(0, len(TELLING)))]
    return bytes(data)


def one(name: str, content: bytes) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        (folder / name).write_bytes(content)
        return [folder / name]

    return write


def in_memory(write: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def pairs(name: str) -> Read:
    return lambda folder: [np.asarray(array).sum() for array in open_arrays(str(folder / name)).values()]


def parquet() -> bytes:
    columns = {side: pyarrow.array(list(U), pyarrow.list_(pyarrow.float32())) for side in "uv"}
    return in_memory(lambda file: pyarrow.parquet.write_table(pyarrow.table(columns), file))


def image(kind: str) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    return in_memory(lambda file: Image.fromarray(pixels).save(file, kind))


def archive(kind: str) -> bytes:
    def write(file: io.BytesIO) -> None:
        if kind == "zip":
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
                packed.writestr("set/a.txt", "content" * 20)
            return
        with tarfile.open(fileobj=file, mode="w:gz") as unpacked:
            member = tarfile.TarInfo("set/a.txt")
            member.size = 140
            unpacked.addfile(member, io.BytesIO(b"content" * 20))

    return in_memory(write)


def unpack(folder: Path) -> object:
    with tempfile.TemporaryDirectory(dir=folder) as root:
        return extract(folder / "packed", Path(root), folder="set", limit=10_000)


def write_plan(folder: Path) -> list[Path]:
    Cut()(U, U, batch_size=4).save(folder / "plan")
    return [folder / "plan"]


def write_table(folder: Path) -> list[Path]:
    write_plan_table(Cut()(U, U, batch_size=4), folder / "plan.parquet")
    return [folder / "plan.parquet"]


def samples() -> bytes:
    def write(file: io.BytesIO) -> None:
        with tarfile.open(fileobj=file, mode="w") as unpacked:
            for name in ("a.txt", "a.bin", "b.txt"):
                member = tarfile.TarInfo(name)
                member.size = 140
                unpacked.addfile(member, io.BytesIO(b"content" * 20))

    return in_memory(write)


def write_checkpoint(folder: Path) -> list[Path]:
    facts = {"epoch": 1, "plans": ["epoch-0001.npz"], "lengths": {"metrics": 3}}
    save_checkpoint(folder, Checkpoint(step=3, facts=facts, tensors={"model.w": torch.ones(3)}), keep=1)
    return sorted(folder.iterdir())


def write_bank(folder: Path) -> list[Path]:
    (folder / "bank").unlink(missing_ok=True)
    EmbeddingBank(12, 4, path=folder / "bank").record(torch.arange(12), *2 * [torch.from_numpy(U)])
    return [folder / "bank"]


def write_share(folder: Path) -> list[Path]:
    (folder / "bank").unlink(missing_ok=True)
    open_share(folder).u.copy_(torch.from_numpy(U))
    return [folder / "bank"]


def open_share(folder: Path) -> ShardedBank:
    return ShardedBank(24, 4, sharding=Sharding(rank=1, world_size=2), path=folder / "bank")


def read_shard(path: Path) -> list[Any]:
    """All pairs of a shard, some at a time."""
    (shard,) = open_pair_files(path).shards
    return [shard.read(start, stop) for start, stop in shard.bounds(len(U))]


def gather_rows(path: Path) -> object:
    """All rows of a file in another order, if it says that it has as many as a plan would."""
    files = open_sample_files(path)
    return files.counts() == [len(U)] and files._gathered([np.arange(len(U))[::-1]], silent)  # type: ignore[attr-defined]


def write_idx_file(folder: Path) -> list[Path]:
    write_idx(folder / "images.gz", np.zeros((3, 4, 4), np.uint8))
    (folder / "images").write_bytes(gzip.decompress((folder / "images.gz").read_bytes()))
    return [folder / "images.gz", folder / "images"]


def write_pickle(folder: Path) -> list[Path]:
    write_cifar100(folder, train=2, test=1)
    return [next(folder.rglob("test"))]


def write_index(folder: Path) -> list[Path]:
    tower = SearchTower("Cut", (rounded(np.ones((4, 5))),), rounded(U))
    names = tuple(map(str, range(len(U))))
    facts: dict[str, Any] = {"names": names, "texts": names, "learnt": 3, "questions": ("one",)}
    index = SearchIndex(buckets=np.arange(12), table=rounded(U), towers=(tower,), **facts)
    write_search(index, folder / "search.json")
    return [folder / "search.json"]


def write_report_run(folder: Path) -> list[Path]:
    run = write_run(folder / "run")
    names = ("config.toml", "environment.json", "metrics.jsonl", "timings.jsonl", "result.json")
    return [run / name for name in names]


TARGETS: dict[str, Target] = {
    "npz": (pairs("x.npz"), one("x.npz", in_memory(lambda file: np.savez(file, u=U, v=U)))),
    "npz packed": (pairs("x.npz"), one("x.npz", in_memory(lambda file: np.savez_compressed(file, u=U, v=U)))),
    "npy": (pairs(""), one("u.npy", in_memory(lambda file: np.save(file, U)))),
    "safetensors": (pairs("x.safetensors"), one("x.safetensors", save({"u": U, "v": U}))),
    "parquet": (pairs("x.parquet"), one("x.parquet", parquet())),
    "split pairs": (
        lambda folder: load(f"pairs:{folder / 'x.npz'}"),
        one("x.npz", in_memory(lambda f: np.savez(f, u=U, v=U))),
    ),
    "png": (lambda folder: read_images([folder / "x.png"], channels=3), one("x.png", image("png"))),
    "jpeg": (lambda folder: read_images([folder / "x.jpg"], channels=3), one("x.jpg", image("jpeg"))),
    "idx": (lambda folder: [read_idx(folder / name, 3) for name in ("images.gz", "images")], write_idx_file),
    "pickle": (lambda folder: load_pickle(next(folder.rglob("test"))), write_pickle),
    "zip": (unpack, one("packed", archive("zip"))),
    "tar": (unpack, one("packed", archive("tar"))),
    "texts": (lambda folder: read_texts(folder / "texts"), one("texts", "one\ntwo\u2028three\n".encode() * 20)),
    "settings": (
        lambda folder: config_of(read_toml(folder / "x.toml"), source=str(folder / "x.toml")),
        one("x.toml", to_toml(config_of(recipe("digits"), source="digits")).encode()),
    ),
    "plan": (lambda folder: BatchPlan.load(folder / "plan"), write_plan),
    "mapped plan": (lambda folder: BatchPlan.load(folder / "plan", mapped=True), write_plan),
    "plan table": (lambda folder: read_plan_table(folder / "plan.parquet"), write_table),
    "samples in a tar": (lambda folder: list(tar_samples(folder / "x.tar")), one("x.tar", samples())),
    "checkpoint": (lambda folder: load_checkpoint(folder, 3), write_checkpoint),
    "shard of pairs": (lambda folder: read_shard(folder / "x.parquet"), one("x.parquet", parquet())),
    "rows of samples": (lambda folder: gather_rows(folder / "x.parquet"), one("x.parquet", parquet())),
    "share of a bank": (lambda folder: open_share(folder).coverage, write_share),
    "bank": (lambda folder: EmbeddingBank(12, path=folder / "bank").coverage, write_bank),
    "index": (lambda folder: read_search(folder / "search.json").answers("one"), write_index),
    "run": (lambda folder: read_run(folder / "run"), write_report_run),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where there is such a place: tens of thousands of files are written."""
    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="fuzz") as name:
        yield Path(name)


def outcome(read: Read, folder: Path, file: Path) -> bool:
    """Whether the folder was read; what refuses it must be ours, and a line that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(folder)
    except (ValueError, TypeError) as error:
        told = str(error)
        assert file.stem in told, told
        assert "\n" not in told
        assert len(told) < 1000
        return False
    return True


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_read_or_refused_in_a_line(name: str, folder: Path) -> None:
    read, write = TARGETS[name]
    files = write(folder)
    assert outcome(read, folder, files[0])
    whole = {file: file.read_bytes() for file in files}
    random = np.random.default_rng(0)
    refused = 0
    for number in range(FILES):
        file = files[number % len(files)]
        file.write_bytes(damaged(whole[file], random))
        refused += not outcome(read, folder, file)
        file.write_bytes(whole[file])
    assert refused > FILES // 10


@pytest.mark.parametrize("name", ["metrics.jsonl", "timings.jsonl", "config.toml", "environment.json"])
def test_a_page_is_made_of_whatever_was_read(name: str, folder: Path) -> None:
    write_run(folder / "run")
    file = folder / "run" / name
    whole = file.read_bytes()
    random = np.random.default_rng(1)

    def read(place: Path) -> Any:
        return render([read_run(place / "run")], title="page")

    shown = 0
    for _ in range(FILES // 100):
        file.write_bytes(damaged(whole, random))
        shown += outcome(read, folder, file)  # which fails by any error but ours
    assert shown
