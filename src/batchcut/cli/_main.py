"""Parse, call, and turn what went wrong into an exit code."""

import errno
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TextIO

from batchcut._errors import shortened, without_number
from batchcut._interrupts import interrupts_answered

from ._app import as_options, parsed
from ._verb import FAILED, INTERRUPTED, OUTPUT_CLOSED, WRONG_USE, Verb

_ADVICE = {
    errno.ENOENT: "check the path, which begins in the current folder unless it begins with /",
    errno.EACCES: "choose another place, or change its permissions",
    errno.EROFS: "choose another place",
    errno.EEXIST: "choose another name",
    errno.ENOTDIR: "choose another place: a file is where a folder should be",
    errno.EISDIR: "name a file",
    errno.ENOSPC: "make room and try again",
}
_OUT_OF_MEMORY = re.compile("(not enough|allocate|out of) memory|size calculation overflowed")  # torch's words
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_FAULT_OF_THE_USER = (*_NO_ROOM, errno.EFBIG, errno.EIO)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `batchcut` with the given arguments, those of the process if left out, and exits."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    code = _guarded([word for word in words if word != "--debug"], debug="--debug" in words)
    _empty_output()
    sys.exit(code)


def _guarded(words: Sequence[str], *, debug: bool) -> int:
    """Parses, runs and flushes, whatever the words ask for; the exit code, after a word about what went wrong."""
    if not debug:
        warnings.formatwarning = _warning
    verb: Verb | None = None
    try:
        verb = parsed(words)
        with interrupts_answered():
            code = verb.run()
        sys.stdout.flush()  # here, where a closed pipe or a full disk is still ours to answer
        return code
    except BrokenPipeError:  # whoever read the output has had enough
        return OUTPUT_CLOSED
    except KeyboardInterrupt:
        hint = _hint(verb)
        print(f"\nbatchcut: interrupted{hint and f'; {hint}'}", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exception(error)
        reason, code = _explained(error)
        if getattr(error, "errno", None) in _NO_ROOM and (hint := _hint(verb)):
            reason += f"; {hint}"
        print(f"batchcut: {reason if verb is None else as_options(type(verb), reason)}", file=sys.stderr)
        return code


def _hint(verb: Verb | None) -> str:
    """How to go on, as far as the verb can say: its options may be what was wrong."""
    try:
        return str(getattr(verb, "after_interrupt", str)())
    except Exception:
        return ""


def _open_streams() -> None:
    """Streams that were closed before we came lead nowhere; a terminal that has no ρ gets a question mark."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number: no file of ours may come to lie under a stream
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - open to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _Errors(sys.stderr.buffer, sys.stderr.encoding, "backslashreplace", line_buffering=True)


class _Errors(io.TextIOWrapper):
    """The error stream, which leads nowhere once nobody can read it: that is no reason to stop a training."""

    def write(self, text: str, /) -> int:
        """Writes, or does as if."""
        try:
            return super().write(text)
        except OSError:
            _lead_nowhere(self)
            return len(text)

    def flush(self) -> None:
        """Flushes, or does as if."""
        try:
            super().flush()
        except OSError:
            _lead_nowhere(self)


def _empty_output() -> None:
    """What could not be written must go somewhere, or Python tries again at its end and complains."""
    try:
        sys.stdout.flush()
    except OSError:
        _lead_nowhere(sys.stdout)


def _lead_nowhere(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _warning(message: Warning | str, *_: object, **__: object) -> str:
    """A warning as a line of its own, without the place in the code that it came from."""
    return f"batchcut: warning: {message}\n"


def _explained(error: Exception) -> tuple[str, int]:
    """What went wrong and what to do next, in a line or two, and the exit code."""
    if isinstance(error, ModuleNotFoundError):
        return f'{error}; pip install "batchcut[train,report]" brings what the verbs need', WRONG_USE
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error))):
        return f"there is not enough memory for it: {shortened(str(error)) or 'smaller sizes may fit'}", FAILED
    if isinstance(error, ArithmeticError | ImportError | OSError | TypeError | ValueError):
        reason = _system_error(error) if isinstance(error, OSError) else str(error)
        return reason, FAILED if _came_up(error) else WRONG_USE
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return f"this should not happen: {reason}\nThe same with --debug shows where.", FAILED


def _came_up(error: Exception) -> bool:
    """Whether the work failed although it was asked for rightly: it diverged, was killed, or a disk was full."""
    return (
        isinstance(error, ArithmeticError | ChildProcessError) or getattr(error, "errno", None) in _NO_FAULT_OF_THE_USER
    )


def _system_error(error: OSError) -> str:
    """What the system refused, without its number, and what to do next."""
    if error.strerror is None:
        return str(error)
    return "; ".join(filter(None, (without_number(error), _ADVICE.get(error.errno or 0))))
