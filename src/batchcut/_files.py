"""Files that are there whole or not at all."""

import contextlib
import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file under another name, makes sure that it is on the disk, and gives it its name.

    A link stays, and what it points to is written. Of several processes that write to one path, one waits for the
    other, and the last one's file stays.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        raise OSError(errno.EINVAL, "Not a file, and a file would take its place", str(path))
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        with open_alone(unfinished) as file:
            try:
                file.truncate(0)
                write(file)
                file.flush()
                os.fsync(file.fileno())
                unfinished.replace(target)
            except BaseException:
                with contextlib.suppress(OSError):
                    unfinished.unlink()  # while it is ours alone
                raise
    except OSError as error:
        if error.filename == str(unfinished):
            raise OSError(error.errno, error.strerror, str(path)) from error  # the name that the caller knows
        raise
    sync_folder(target.parent)


@contextlib.contextmanager
def open_alone(path: Path) -> Iterator[BinaryIO]:
    """A file that is made if it is not there, opened to read and write; another process that wants it waits here."""
    while True:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
            _lock(file)
            if _is_still(path, file):  # while we waited it may have got another name, or been taken away
                yield file
                return


def _is_still(path: Path, file: BinaryIO) -> bool:
    """Whether the path is that of the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _lock(file: BinaryIO) -> None:
    """Waits until no other process has the file; where files cannot be locked, nobody waits."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise


def write_bytes(path: Path, content: bytes) -> None:
    """Writes bytes by `write_whole`."""
    write_whole(path, lambda file: file.write(content))


def write_json(path: Path, content: object) -> None:
    """Writes JSON by `write_whole`."""
    write_bytes(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def sync_folder(folder: Path) -> None:
    """Makes sure that the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def existing_file(path: Path) -> Path:
    """Returns `path`, if there is such a file."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
    return path


@contextlib.contextmanager
def reading(path: Path, rule: str, *, found: str = "one that fails: ") -> Iterator[None]:
    """The one place where what a reader raises at a file becomes our error, which names the file and the rule.

    Libraries raise all kinds of things at damaged or hostile input, so all of it is a `ValueError` here, but for a file
    that is not there and a library that is not installed. Only reading belongs in the block: what goes wrong in writing
    is not the file's fault.
    """
    try:
        yield
    except (FileNotFoundError, ImportError):
        raise
    except Exception as error:
        raise ValueError(f"{path} must {rule}; got {found}{str(error) or type(error).__name__}") from error
