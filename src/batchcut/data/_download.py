"""Fetches a published file: goes on where it was broken off, checks the sum, and only then gives it its name."""

import errno
import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from batchcut._files import open_alone

from ._official import Source

Transfer = Callable[[str, int, int], None]
"""Called with a file's name, the bytes that are there, and the bytes that there will be."""

_TRIES = 4
_WAIT_SECONDS = 1.0
_TIMEOUT_SECONDS = 30.0
_AT_ONCE = 1 << 20
_NOT_SATISFIABLE = 416
_PASSING = (408, 425, 429)  # what a server says when it is busy
_FAULTS = (OSError, http.client.HTTPException)


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
            return target
        _complete(source, file, progress or _silent, wait)
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


def _silent(name: str, done: int, total: int) -> None:
    """Reports nothing."""
