"""Samples in WebDataset tars: where each of them lies, and how they are written to other tars."""

import hashlib
import io
import re
import tarfile
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from batchcut._files import reading, write_whole
from batchcut._progress import Progress
from batchcut.selection import BatchPlan

from ._pair_files import Ints
from ._samples import Flags, SampleFiles, Target

_RULE = "be a whole WebDataset tar, not compressed"
_KEY_AND_FIELD = re.compile(r"(?P<key>(?:.*/)?[^.]+)\.(?P<field>[^/]*)")
_SKIPPED = re.compile(r"__[^/]*__(?:$|/)")
_BLOCK = 512
_MOST_OPEN = 64

INDEX = np.dtype([("shard", "<i4"), ("start", "<i8"), ("stop", "<i8"), ("key", "<u8")])
"""Of a sample: the number of its shard, from where to where it lies in there, and what its key is known by."""

Index = npt.NDArray[np.void]


class TarSample(NamedTuple):
    """A sample, and from where to where it lies in its tar."""

    key: str
    start: int
    stop: int


def split_name(name: str) -> tuple[str, str] | None:
    """The key of a file's sample and the field that the file is of it; None of a file that WebDataset skips.

    The key is all up to the first dot of the base name.
    """
    found = _KEY_AND_FIELD.fullmatch(name)
    return None if found is None or _SKIPPED.match(name) else (found["key"], found["field"].lower())


def key_number(key: str) -> int:
    """A number of 64 bits that a key is known by, the same on any machine."""
    return int.from_bytes(hashlib.blake2b(key.encode(errors="surrogateescape"), digest_size=8).digest(), "little")


def tar_samples(path: Path) -> Iterator[TarSample]:
    """The samples of a tar in their order, from its headers alone: neighbours with one key are one sample."""
    with reading(path, _RULE), path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
        current: TarSample | None = None
        fields: set[str] = set()
        for member, parts in _named_files(archive):
            key, field = parts
            if current is not None and key != current.key:
                yield current
                current, fields = None, set()
            if field in fields:
                raise ValueError(f"{member.name} twice in one sample")
            fields.add(field)
            start = member.offset if current is None else current.start
            current = TarSample(key, start, member.offset_data + -(-member.size // _BLOCK) * _BLOCK)
        if archive.pax_headers:
            raise ValueError(f"headers for all its files: {', '.join(archive.pax_headers)}")
        _check_end(archive, file)
        if current is not None:
            yield current


def _named_files(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, tuple[str, str]]]:
    while (member := archive.next()) is not None:
        archive.members = []  # type: ignore[attr-defined] # or all of them would be kept
        if member.issparse():
            raise ValueError(f"{member.name}, which is stored with holes")
        parts = split_name(member.name) if member.isreg() else None
        if parts is not None:
            yield member, parts


def _check_end(archive: tarfile.TarFile, file: BinaryIO) -> None:
    """Refuses a tar that ends, or is damaged, between two files, where tarfile sees its end: a whole one has zeros."""
    file.seek(archive.offset)
    if file.read(_BLOCK) != bytes(_BLOCK):
        raise ValueError(f"no end of a tar after {archive.offset} bytes")


class TarFiles:
    """Tars that are read here and there; not too many of them are open at a time."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._open: OrderedDict[int, BinaryIO] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def sample(self, shard: int, start: int, stop: int, key: int) -> list[tuple[tarfile.TarInfo, bytes]]:
        """The files of a sample, which must still be where the index says."""
        path = self._paths[shard]
        file = self._open.pop(shard, None) or path.open("rb")
        self._open[shard] = file
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)[1].close()
        with reading(path, "stay as it is until all samples are written"):
            file.seek(start)
            content = file.read(stop - start)
            files = [] if len(content) < stop - start else _files_of(content, key)
            if not files:
                raise ValueError(f"another sample at {start} bytes")
            return files


def _files_of(content: bytes, key: int) -> list[tuple[tarfile.TarInfo, bytes]]:
    files = []
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for member, (name, _) in _named_files(archive):
            data = archive.extractfile(member)
            if key_number(name) != key or data is None:
                return []
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mode, entry.mtime = member.size, member.mode, int(member.mtime)
            files.append((entry, data.read()))
    return files


class TarSampleFiles(SampleFiles):
    """WebDataset tars. The index of all samples is a file, which is mapped: there may be more than fit into memory."""

    suffix = ".tar"

    def __init__(self, paths: Sequence[Path], index: Path | None) -> None:
        super().__init__(paths)
        self._path = index

    def counts(self) -> list[int]:
        """Makes the index, in one pass over the headers."""
        counts: list[int] = []
        write_whole(self._index_path, partial(self._write_index, counts))
        return counts

    @property
    def _index_path(self) -> Path:
        if self._path is None:
            raise ValueError("there is no file for the index")
        return self._path

    def all_keys(self) -> Iterator[list[str]]:
        """As the tars have them."""
        return ([sample.key for sample in tar_samples(path)] for path in self.paths)

    def _write_index(self, counts: list[int], file: BinaryIO) -> None:
        for number, path in enumerate(self.paths):
            entries = [(number, start, stop, key_number(key)) for key, start, stop in tar_samples(path)]
            file.write(np.array(entries, INDEX).tobytes())
            counts.append(len(entries))

    def _index(self) -> Index:
        return np.memmap(self._index_path, INDEX, "r")

    def are_at(self, samples: Ints, names: Sequence[str], keys: Sequence[str]) -> Flags:
        """Keys are compared by numbers of 64 bits."""
        found = self._index()[samples]
        numbers = np.array([key_number(key) for key in keys], np.uint64)
        same = np.array([self.paths[shard].name for shard in found["shard"]]) == np.array(names)
        return np.asarray(same & (found["key"] == numbers))

    def write(self, targets: Sequence[Target], plan: BatchPlan, told: Progress) -> None:
        """Samples are read where they lie, one after the other; each gets a folder of its own.

        Without the folder, BATCH/POSITION, two neighbours with the same key would be one sample.
        """
        index = self._index()
        with TarFiles(self.paths) as files:
            for done, target in enumerate(targets):
                told(done / len(targets))
                write_whole(target.path, partial(_write_tar, files, index, target, plan))


def _write_tar(files: TarFiles, index: Index, target: Target, plan: BatchPlan, file: BinaryIO) -> None:
    width, depth = len(str(len(plan) - 1)), len(str(plan.batch_size - 1))
    first = target.columns.start or 0
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for row, batch in zip(target.rows.tolist(), target.batches(plan), strict=True):
            for position, entry in enumerate(index[batch].tolist(), start=first):
                for member, content in files.sample(*entry):
                    member.name = f"{row:0{width}}/{position:0{depth}}/{member.name}"
                    tar.addfile(member, io.BytesIO(content))
