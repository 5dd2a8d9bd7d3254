"""Published files: found in the folder where data sets are kept, or fetched and unpacked there.

This is done by hand because the standard library does less: `urllib` begins a file of gigabytes anew where a connection
broke off, and `tarfile` and `zipfile` unpack what an archive holds, however much it is. Here a download goes on, its
checksum is proven before it gets its name, and only plain files in one folder, of a limited size, come out.
"""

import errno
import hashlib
import http.client
import os
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from batchcut._errors import invalid
from batchcut._files import open_alone, reading, writing
from batchcut._progress import silent

Transfer = Callable[[str, int, int], None]
"""Called with a file's name, the bytes that are there, and the bytes that there will be."""

_TRIES = 4
_WAIT_SECONDS = 1.0
_TIMEOUT_SECONDS = 30.0
_AT_ONCE = 1 << 20
_NOT_SATISFIABLE = 416
_PASSING = (408, 425, 429)  # what a server says when it is busy
_FAULTS = (OSError, http.client.HTTPException)
_MOST_MEMBERS = 500_000
_UNDAMAGED = "be an undamaged archive"


@dataclass(frozen=True, kw_only=True)
class Source:
    """One published file.

    Attributes:
        name: What the file is called.
        addresses: Where it is published; the next is tried where one fails.
        size: Its length in bytes.
        checksum: Algorithm and hexadecimal digest, with a colon between them.
    """

    name: str
    addresses: tuple[str, ...]
    size: int
    checksum: str


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A data set published as one archive, which unpacks into one folder.

    Attributes:
        source: The archive itself.
        folder: The folder that it unpacks into.
        unpacked: No more bytes than this may come out.
    """

    source: Source
    folder: str
    unpacked: int


def data_root(root: Path | None) -> Path:
    """Where data sets are kept: `root`, or `$BATCHCUT_DATA`, or else `batchcut` in the user's cache."""
    if root is not None:
        return expanded(Path(root))
    if told := os.environ.get("BATCHCUT_DATA"):
        return expanded(Path(told))
    return expanded(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")) / "batchcut"


def expanded(path: Path) -> Path:
    """The path with the user's home for ~; in a container there may be none."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise invalid("root", "be given, or BATCHCUT_DATA or HOME be set: no home folder is known", path) from error


def obtain_folder(archive: Archive, root: Path, *, download: bool, progress: Transfer | None = None) -> Path:
    """The folder of an unpacked archive.

    An archive that lies in `root` is checked and unpacked; one that is fetched is deleted after that.
    """
    folder = root / archive.folder
    if folder.is_dir():
        return folder
    packed = root / archive.source.name
    if packed.is_file():
        _check_sum(archive.source, packed)
        return extract(packed, root, folder=archive.folder, limit=archive.unpacked)
    if not download:
        raise _missing(archive.source, folder)
    fetch(archive.source, packed, progress=progress)
    extract(packed, root, folder=archive.folder, limit=archive.unpacked)
    packed.unlink()
    return folder


def obtain_file(source: Source, folder: Path, *, download: bool, progress: Transfer | None = None) -> Path:
    """A published file in `folder`, packed as it is published and checked, or, where its name ends in .gz, unpacked."""
    unpacked, packed = folder / source.name.removesuffix(".gz"), folder / source.name
    if unpacked != packed and unpacked.is_file():
        return unpacked
    if packed.is_file():
        _check_sum(source, packed)
        return packed
    if not download:
        raise _missing(source, packed)
    return fetch(source, packed, progress=progress)


def _check_sum(source: Source, path: Path) -> None:
    found = checksum(path, source.checksum.partition(":")[0])
    if found != source.checksum:
        raise ValueError(
            f"{path} must have the checksum {source.checksum}; got {found}: delete it, and --download (download=True) "
            "fetches it again"
        )


def _missing(source: Source, wanted: Path) -> FileNotFoundError:
    size = f"{source.size / 1e6:,.0f} MB" if source.size >= 1e6 else f"{source.size / 1e3:,.0f} kB"
    return FileNotFoundError(
        f"{wanted} is not there: --download (download=True) fetches {size} from {source.addresses[0]}; "
        "--root FOLDER (root=...) names the folder in which it lies"
    )


class _BrokenOffError(OSError):
    """The server closed the connection before the end."""


def fetch(source: Source, target: Path, *, progress: Transfer | None = None, wait: float = _WAIT_SECONDS) -> Path:
    """Puts the file at `target`, whole and with the right sum, or raises; what has come stays in `target`.part.

    Two processes that fetch the same file take turns, and the second finds it there.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with open_alone(part) as file:
        if target.is_file():
            part.unlink(missing_ok=True)
            _check_sum(source, target)
            return target
        with writing(part):
            _complete(source, file, progress or silent, wait)
        found = checksum(part, source.checksum.partition(":")[0])
        if found != source.checksum:
            part.unlink()
            raise ValueError(
                f"{source.name} must have the checksum {source.checksum}; got {found}, and the file was deleted: "
                "try again, and if it happens again, the published file has changed"
            )
        part.replace(target)
    return target


def checksum(path: Path, algorithm: str) -> str:
    """The file's sum, as `Source.checksum` gives it."""
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _complete(source: Source, file: IO[bytes], progress: Transfer, wait: float) -> None:
    """Tries each address in turn, some times over, until the file has its full size."""
    if file.seek(0, 2) == source.size:
        return
    failures: list[str] = []
    addresses = list(source.addresses)
    for attempt in range(_TRIES):
        if attempt and addresses:
            time.sleep(wait * 2 ** (attempt - 1))
        for address in tuple(addresses):
            try:
                _read_on(source, address, file, progress)
                return
            except urllib.error.HTTPError as error:
                failures.append(f"{address}: {error.code} {error.reason}")
                if error.code == _NOT_SATISFIABLE:
                    file.truncate(0)
                elif error.code not in _PASSING and error.code < 500:
                    addresses.remove(address)
                error.close()
            except _FAULTS as error:
                if getattr(error, "errno", None) == errno.ENOSPC:  # a full disk is not the server's fault
                    raise
                failures.append(f"{address}: {getattr(error, 'reason', None) or error}")
    have = f"{file.seek(0, 2):,} of {source.size:,} bytes are there, and the next call goes on from them"
    other = "--root FOLDER (root=...) names a folder that has it"
    raise ConnectionError(f"{source.name} could not be fetched ({'; '.join(dict.fromkeys(failures))}); {have}; {other}")


def _read_on(source: Source, address: str, file: IO[bytes], progress: Transfer) -> None:
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"addresses must begin with http:// or https://; got {address}")
    have = file.seek(0, 2)
    if have > source.size:
        have = file.seek(0)
        file.truncate()
    headers = {"User-Agent": "batchcut", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
        if have and not _goes_on(answer, have):
            have = file.seek(0)
            file.truncate()
        progress(source.name, have, source.size)
        while block := answer.read(_AT_ONCE):
            if have + len(block) > source.size:
                raise _BrokenOffError(f"more than the {source.size:,} bytes that were published")
            file.write(block)
            have += len(block)
            progress(source.name, have, source.size)
    file.flush()
    if have < source.size:
        raise _BrokenOffError(f"the connection ended after {have:,} of {source.size:,} bytes")


def _goes_on(answer: http.client.HTTPResponse, start: int) -> bool:
    """Whether the server sends what was asked for; one that cannot sends the whole file."""
    return answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(f"bytes {start}-")


class _RefusedError(Exception):
    """What an archive must not hold."""


class _Member(NamedTuple):
    """What an archive holds under a name: a folder, a file with its content in blocks, or else neither."""

    name: str
    is_folder: bool
    blocks: Iterator[bytes] | None


def extract(archive: Path, root: Path, *, folder: str, limit: int) -> Path:
    """Unpacks a tar or zip archive, which must hold the one folder of that name, and returns `root` / `folder`.

    Refused are links, devices, absolute names, names with `..`, anything beside the folder, and more than `limit`
    bytes. The folder appears under its name when all of it is there, and not at all if anything is refused.
    """
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{folder}.") as temporary:
        try:
            _write_members(_members(archive), Path(temporary), folder, limit)
        except _RefusedError as error:
            raise ValueError(f"{archive} must hold plain files in {folder}/ and nothing else; got {error}") from error
        if not (Path(temporary) / folder).is_dir():
            raise ValueError(f"{archive} must hold plain files in {folder}/; got none")
        (Path(temporary) / folder).replace(root / folder)
    return root / folder


def _write_members(members: Iterator[_Member], target: Path, folder: str, limit: int) -> None:
    left = limit
    for count, (name, is_folder, blocks) in enumerate(members):
        if count >= _MOST_MEMBERS:
            raise _RefusedError(f"more than {_MOST_MEMBERS:,} members")
        path = PurePosixPath(name)
        plain = not path.is_absolute() and ".." not in path.parts and not set("\\:\0") & set(name)
        if not plain or not path.parts or path.parts[0] != folder:
            raise _RefusedError(f"the name {name!r}")
        place = target.joinpath(*path.parts)
        if is_folder:
            place.mkdir(parents=True, exist_ok=True)
            continue
        if blocks is None:
            raise _RefusedError(f"{name!r}, which is neither a file nor a folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            for block in blocks:
                left -= len(block)
                if left < 0:
                    raise _RefusedError("more bytes than it may unpack to")
                file.write(block)


def _members(archive: Path) -> Iterator[_Member]:
    with reading(archive, _UNDAMAGED):
        yield from _zip_members(archive) if zipfile.is_zipfile(archive) else _tar_members(archive)


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as packed:
        for entry in packed.infolist():
            kind = entry.external_attr >> 28  # the type bits of a Unix mode; 0 where another system wrote it
            is_file = not entry.is_dir() and kind in (0, 0o10)
            with packed.open(entry) as content:
                blocks = _blocks(archive, content) if is_file else None
                yield _Member(entry.filename, entry.is_dir() and kind in (0, 0o4), blocks)


def _tar_members(archive: Path) -> Iterator[_Member]:
    with tarfile.open(archive, "r:*") as packed:
        for entry in packed:
            content = packed.extractfile(entry) if entry.isreg() else None
            yield _Member(entry.name, entry.isdir(), None if content is None else _blocks(archive, content))


def _blocks(archive: Path, content: IO[bytes]) -> Iterator[bytes]:
    with reading(archive, _UNDAMAGED):
        while block := content.read(_AT_ONCE):
            yield block
