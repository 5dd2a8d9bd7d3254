"""Unpacks archives that may be hostile: plain files only, inside one folder, of a limited size."""

import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

_AT_ONCE = 1 << 20
_MOST_MEMBERS = 500_000
_FAULTS = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


class _Member(NamedTuple):
    name: str
    is_folder: bool
    is_file: bool
    content: IO[bytes] | None


def extract(archive: Path, root: Path, *, folder: str, limit: int) -> Path:
    """Unpacks a tar or zip archive, which must hold the one folder of that name, and returns `root` / `folder`.

    Refused are links, devices, absolute names, names with `..`, anything beside the folder, and more than `limit`
    bytes. The folder appears under its name when all of it is there, and not at all if anything is refused.
    """
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{folder}.") as temporary:
        try:
            _write_members(_members(archive), Path(temporary), folder, limit)
        except _FAULTS as error:
            raise ValueError(f"{archive} must be an undamaged archive; got one that fails: {error}") from error
        except _RefusedError as error:
            raise ValueError(f"{archive} must hold plain files in {folder}/ and nothing else; got {error}") from error
        if not (Path(temporary) / folder).is_dir():
            raise ValueError(f"{archive} must hold plain files in {folder}/; got none")
        (Path(temporary) / folder).replace(root / folder)
    return root / folder


class _RefusedError(Exception):
    """What an archive must not hold."""


def _write_members(members: Iterator[_Member], target: Path, folder: str, limit: int) -> None:
    left = limit
    for count, member in enumerate(members):
        if count >= _MOST_MEMBERS:
            raise _RefusedError(f"more than {_MOST_MEMBERS:,} members")
        path = PurePosixPath(member.name)
        plain = not path.is_absolute() and ".." not in path.parts and "\\" not in member.name and ":" not in member.name
        if not plain or not path.parts or path.parts[0] != folder or "\0" in member.name:
            raise _RefusedError(f"the name {member.name!r}")
        place = target.joinpath(*path.parts)
        if member.is_folder:
            place.mkdir(parents=True, exist_ok=True)
        elif member.is_file and member.content is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                left = _copy(member.content, file, left)
        else:
            raise _RefusedError(f"{member.name!r}, which is neither a file nor a folder")


def _copy(content: IO[bytes], file: IO[bytes], left: int) -> int:
    while block := content.read(_AT_ONCE):
        left -= len(block)
        if left < 0:
            raise _RefusedError("more bytes than it may unpack to")
        file.write(block)
    return left


def _members(archive: Path) -> Iterator[_Member]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                kind = entry.external_attr >> 28  # the type bits of a Unix mode; 0 where another system wrote it
                is_file = not entry.is_dir() and kind in (0, 0o10)
                with packed.open(entry) as content:
                    yield _Member(entry.filename, entry.is_dir() and kind in (0, 0o4), is_file, content)
    else:
        with tarfile.open(archive, "r:*") as tar:
            for item in tar:
                yield _Member(item.name, item.isdir(), item.isreg(), tar.extractfile(item) if item.isreg() else None)
