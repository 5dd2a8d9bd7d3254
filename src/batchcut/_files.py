"""Files that are there whole or not at all."""

import contextlib
import errno
import glob
import json
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from ._errors import invalid, shortened

T = TypeVar("T")

_PARTS_OF_A_RUN = ("checkpoints", "metrics.jsonl")
_WRITTEN = (".html", ".json", ".npz")  # what verbs write, and may have written before into a folder that is read
_UNFINISHED = ".unfinished"
_TOKEN_BYTES = 4
_TOKENS = "." + 2 * _TOKEN_BYTES * "[0-9a-f]"
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)  # which Windows has not
_MOST_PIPED, _LONGEST_PIPED_LINE = 1 << 28, 1 << 16
_LONGEST_START = 200  # of at most 255 bytes in the name of a file


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file under a name that nobody else has, makes sure that it is on the disk, and gives it its name.

    A link stays, and what it points to is written; so does the mode of a file that is replaced. Of several processes
    that write to one path, the last one's file stays. What a killed process left is removed.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        raise OSError(errno.EINVAL, "Not a file, and a file would take its place", str(path))
    with writing(path), _unfinished(target) as (unfinished, file):
        try:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            unfinished.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise
    sync_folder(target.parent)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Makes errors of the system name the file that was being written, by the name that the caller knows."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not (error.filename is None or str(error.filename).endswith(_UNFINISHED)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def _unfinished(target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside the target, with a name of its own and the target's mode, locked as long as it is open.

    So those that are not locked were left by processes that were killed.
    """
    start = _hidden(target.name)
    for left in target.parent.glob(glob.escape(start) + _TOKENS + _UNFINISHED):
        _remove_unlocked(left)
    while True:
        path = target.with_name(f"{start}.{secrets.token_hex(_TOKEN_BYTES)}{_UNFINISHED}")
        mode = stat.S_IMODE(target.stat().st_mode) if target.is_file() else None
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW, 0o666 if mode is None else 0o600)
        with os.fdopen(handle, "r+b") as file:
            try_lock(file, wait=True)
            if _is_still(path, file):  # another process may have taken it for one that was left
                if mode is not None:
                    path.chmod(mode)
                yield path, file
                return


def _hidden(name: str) -> str:
    """The beginning of names beside a file of that name, short enough for more to follow."""
    return os.fsdecode(b"." + os.fsencode(name)[:_LONGEST_START])


def _remove_unlocked(path: Path) -> None:
    with contextlib.suppress(OSError), os.fdopen(os.open(path, os.O_RDWR | _NOFOLLOW), "r+b") as file:
        if try_lock(file) is True and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            path.unlink()


@contextlib.contextmanager
def open_alone(path: Path) -> Iterator[BinaryIO]:
    """A file that is made if it is not there, opened to read and write; another process that wants it waits here."""
    while True:
        with open_own(path) as file:
            try_lock(file, wait=True)
            if _is_still(path, file):  # while we waited it may have got another name, or been taken away
                yield file
                return


def make_once(path: Path, make: Callable[[], object]) -> None:
    """Makes a file that is not there, unless another process does so at the same time: its file stays."""
    turn = path.with_name(f"{_hidden(path.name)}.making{_UNFINISHED}")
    with writing(path), open_alone(turn):
        try:
            if not path.exists():
                make()
        finally:
            turn.unlink()


def open_own(path: Path) -> BinaryIO:
    """A file that is made if it is not there, opened to read and write, but never through a link."""
    try:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | _NOFOLLOW, 0o666), "r+b")
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, "a link, where a file must be", str(path)) from error
        raise


def _is_still(path: Path, file: BinaryIO) -> bool:
    """Whether the path is that of the open file."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def try_lock(file: BinaryIO, *, wait: bool = False) -> bool | None:
    """Whether the file is ours alone until it is closed, which the system does for a process that is killed.

    With `wait`, as soon as no other process has it. None where files cannot be locked, and nobody waits.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        return None
    return True


def check_room(path: Path, size: int) -> None:
    """Refuses a file for which the disk has no room now: one that is mapped would crash later, without a word."""
    if hasattr(os, "statvfs"):
        found = os.statvfs(path.absolute().parent)
        if found.f_bavail * found.f_frsize < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes bytes by `write_whole`."""
    write_whole(path, lambda file: file.write(content))


def write_json(path: Path, content: object) -> None:
    """Writes JSON by `write_whole`."""
    write_bytes(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace"))


def sync_folder(folder: Path) -> None:
    """Makes sure that the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_target(argument: str, target: Path, *, inputs: Iterable[Path | None] = ()) -> None:
    """Refuses, before the work, a target that cannot be a file, or would replace what is read or what a run holds."""
    try:
        kind = target.stat().st_mode
        if not stat.S_ISREG(kind):
            raise invalid(
                argument, "be a file", f"{target}, a {'folder' if stat.S_ISDIR(kind) else 'device or a pipe'}"
            )
    except FileNotFoundError:
        kind = 0
    except OSError as error:
        raise invalid(argument, "be a path that a file can have", f"{target} ({error.strerror})") from error
    for path in (path for path in inputs if kind and path is not None and path.exists()):
        if _is_in(target, path) and target.suffix not in _WRITTEN if path.is_dir() else path.samefile(target):
            raise invalid(argument, "be another file than those that are read", target)
    check_outside_runs(argument, target)


def check_folder_of(argument: str, target: Path) -> None:
    """Refuses, before the work, a target in a folder that is not there."""
    if not target.absolute().parent.is_dir():
        raise invalid(argument, "lie in a folder that is there", target)


def _is_in(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def check_outside_runs(argument: str, target: Path) -> None:
    """Refuses a path in the folder of a run, which is known by its settings and its metrics or checkpoints."""
    place = Path(os.path.realpath(target))
    for folder in (place, *place.parents):
        if (folder / "config.toml").is_file() and any((folder / name).exists() for name in _PARTS_OF_A_RUN):
            raise invalid(argument, f"lie outside the run in {folder}, which is whole as it is", target)


def existing_file(path: Path) -> Path:
    """Returns `path`, if there is such a file."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
    return path


class UnreadableError(ValueError):
    """That a file is not what it should be."""


@contextlib.contextmanager
def reading(path: Path | str, rule: str, *, found: str = "one that fails: ") -> Iterator[None]:
    """The one place where what a reader raises at a file becomes our error, which names the file and the rule.

    Libraries raise all kinds of things at damaged or hostile input, so all of it is a `ValueError` here, but for a file
    that is not there and a library that is not installed. Of blocks within blocks the inner one names its file. Only
    reading belongs in the block: what goes wrong in writing is not the file's fault.
    """
    try:
        yield
    except (FileNotFoundError, ImportError, UnreadableError):
        raise
    except Exception as error:
        reason = shortened(str(error)) or type(error).__name__
        raise UnreadableError(f"{path} must {rule}; got {found}{reason}") from error


def read_text(path: Path, rule: str, *, lines: int | None = None) -> str:
    """The text of a file in UTF-8, with its line ends as they are; of a pipe or a device, so many lines at most."""
    with reading(path, f"{rule}, in UTF-8"):
        endless = path.exists() and not path.is_file() and not path.is_dir()
        content = _piped(path, lines) if endless else path.read_bytes()
        return content.decode("utf-8-sig")


def _piped(path: Path, most: int | None) -> bytes:
    """What comes out of a pipe or a device, which may never end: so many lines, none endless, or else so many bytes."""
    lines: list[bytes] = []
    left = _MOST_PIPED
    with path.open("rb") as file:
        while line := file.readline(_LONGEST_PIPED_LINE + 1):
            if len(line) > _LONGEST_PIPED_LINE:
                raise ValueError(f"a line of more than {_LONGEST_PIPED_LINE} bytes")
            left -= len(line)
            if len(lines) == most or (most is None and left < 0):
                raise ValueError(f"more than {_MOST_PIPED} bytes" if most is None else f"more than {most} lines")
            lines.append(line)
    return b"".join(lines)


def read_lines(path: Path, rule: str, *, most: int | None = None) -> list[str]:
    """The lines of a text, which a newline ends and nothing else: a form feed or U+2028 may stand within one.

    With `most`, what is no file and may never end is refused after so many.
    """
    lines = read_text(path, rule, lines=most).split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def read_json(path: Path, kind: type[T], rule: str = "be JSON, undamaged") -> T:
    """What a file of JSON holds, an object or a list as `kind` says."""
    text = read_text(path, rule)
    with reading(path, rule, found=""):
        return json_of(text, kind)


def json_of(text: str, kind: type[T]) -> T:
    """What a JSON text holds, if it is of that kind."""
    content = json.loads(text)
    if not isinstance(content, kind):
        raise TypeError(f"{type(content).__name__} where there must be {kind.__name__}")
    return content
