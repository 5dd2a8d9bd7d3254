"""Files that are there whole or not at all."""

import contextlib
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file under another name, makes sure that it is on the disk, and gives it its name."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "Not a file, and a file would take its place", str(path))
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        if isinstance(error, OSError) and error.filename == str(unfinished):
            raise OSError(error.errno, error.strerror, str(path)) from error  # the name that the caller knows
        raise
    sync_folder(path.parent)


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
