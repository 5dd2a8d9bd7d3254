"""Shards of samples, small, and plans of them."""

import io
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from batchcut.scale import Resharded
from batchcut.selection import BatchPlan


def content(sample: int) -> dict[str, bytes]:
    """The files of a sample, by their suffixes; of different lengths."""
    return {"txt": f"sample {sample}".encode(), "seg.bin": bytes([sample % 256]) * (sample * 37 % 1500)}


def write_tar(path: Path, samples: Sequence[int], *, key: str = "{place:04}") -> Path:
    """Samples one after the other, with keys that each tar has anew."""
    with tarfile.open(path, "w") as archive:
        for place, sample in enumerate(samples):
            for suffix, data in content(sample).items():
                entry = tarfile.TarInfo(f"{key.format(place=place, sample=sample)}.{suffix}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return path


def write_tars(folder: Path, *sizes: int, key: str = "{place:04}") -> list[Path]:
    starts = np.cumsum([0, *sizes]).tolist()
    names = [folder / f"data-{number}.tar" for number in range(len(sizes))]
    return [
        write_tar(path, range(start, start + size), key=key)
        for path, start, size in zip(names, starts, sizes, strict=False)
    ]


def write_rows(folder: Path, *sizes: int, group: int = 7) -> list[Path]:
    starts, paths = np.cumsum([0, *sizes]).tolist(), []
    for number, size in enumerate(sizes):
        samples = range(starts[number], starts[number] + size)
        table = pyarrow.table({"sample": list(samples), "text": [f"text {sample}" for sample in samples]})
        pyarrow.parquet.write_table(table, folder / f"rows-{number}.parquet", row_group_size=group)
        paths.append(folder / f"rows-{number}.parquet")
    return paths


def make_plan(count: int, size: int, *, drop_last: bool = True, seed: int = 3, epoch: int = 1) -> BatchPlan:
    """Any plan of so many samples."""
    samples = np.random.default_rng(seed).permutation(count)
    number = count // size if drop_last else -(-count // size)
    batches = np.full(number * size, -1)
    batches[: min(count, number * size)] = samples[: number * size]
    losses = np.random.default_rng(seed + 1).random((2, number))
    return BatchPlan(
        batches=batches.reshape(number, size),
        count=count,
        method="Any",
        settings={"pool": None, "margin": 0.1},
        seed=seed,
        epoch=epoch,
        temperature=0.07,
        drop_last=drop_last,
        repeats=False,
        losses=losses[0],
        weights=losses[1],
        left_over=np.sort(samples[number * size :]),
        group_pairs=1,
        margin_pairs=0,
        seconds=0.5,
    )


def samples_in(path: Path) -> Iterator[int]:
    """The numbers of the samples in a shard, in their order."""
    if path.suffix == ".parquet":
        yield from pyarrow.parquet.read_table(path).column("sample").to_pylist()
        return
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name.endswith(".txt"):
                data: Any = archive.extractfile(member)
                yield int(data.read().split()[1])


def shards_of(made: Resharded, rank: int = 0) -> list[str]:
    """The files of a process, as WebDataset deals them out."""
    return [str(made.folder / name) for name in made.shards][rank :: made.ranks]


def runs(made: Resharded, rank: int = 0) -> list[list[int]]:
    """All samples of a process, cut into runs of the batch size."""
    samples = [sample for path in shards_of(made, rank) for sample in samples_in(Path(path))]
    return [samples[start : start + made.batch_size] for start in range(0, len(samples), made.batch_size)]


def stop_after(monkeypatch: pytest.MonkeyPatch, kind: str, shards: int, error: BaseException) -> None:
    """Lets so many shards be written, and the next one fail in its middle."""
    name = f"batchcut.scale._{kind}_samples._write_{kind}"
    module, function = name.rsplit(".", 1)
    write = getattr(sys.modules[module], function)
    done = [0]

    def failing(*arguments: Any) -> None:
        if done[0] == shards:
            arguments[-1].write(b"half")
            raise error
        done[0] += 1
        write(*arguments)

    monkeypatch.setattr(name, failing)
