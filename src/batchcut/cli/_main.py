"""Parse, call, and turn what went wrong into an exit code."""

import difflib
import errno
import importlib.metadata
import io
import os
import platform
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

import tyro

import batchcut
from batchcut._interrupts import interrupts_kept

from ._completion import PRINT, SHELLS, WRITE, complete
from ._demo import Demo
from ._evaluate import Evaluate
from ._exit import DONE, FAILED, INTERRUPTED, OUTPUT_CLOSED, WRONG_USE
from ._help import general_help, help_of
from ._paper import Paper
from ._report import Report
from ._select import Select
from ._theory import Theory
from ._train import Train
from ._words import UsageError, as_options, in_order


class Verb(Protocol):
    """What each verb is: a record of its options that runs and returns an exit code.

    A verb that can be gone on with says how in a method `after_interrupt`; one that has verbs of its own names them in
    `verbs`.
    """

    def run(self) -> int:
        """Does the work and prints what came out."""


VERBS: dict[str, type[Verb]] = {
    "demo": Demo,
    "select": Select,
    "train": Train,
    "evaluate": Evaluate,
    "report": Report,
    "paper": Paper,
    "theory": Theory,
}

_SETTINGS = (tyro.conf.FlagCreatePairsOff,)
_ADVICE = {
    errno.ENOENT: "check the path, which begins in the current folder unless it begins with /",
    errno.EACCES: "choose another place, or change its permissions",
    errno.EROFS: "choose another place",
    errno.EEXIST: "choose another name",
    errno.ENOTDIR: "choose another place: a file is where a folder should be",
    errno.EISDIR: "name a file",
    errno.ENOSPC: "make room and go on, with a run by `batchcut train --resume`",
}
_NO_FAULT_OF_THE_USER = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `batchcut` with the given arguments, those of the process if left out, and exits."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that has no ρ gets a question mark, not an error.
        sys.stdout.reconfigure(errors="replace")
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not debug:
        warnings.formatwarning = _warning
    if words == ["--version"]:
        print(_versions())
        sys.exit(DONE)
    verb: Verb | None = None
    try:
        verb = parsed(words)
        with interrupts_kept():
            sys.exit(verb.run())
    except BrokenPipeError:
        # Whoever read the output has had enough. What is left in the buffer must go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(OUTPUT_CLOSED)
    except KeyboardInterrupt:
        hint = getattr(verb, "after_interrupt", str)()
        print(f"\nbatchcut: interrupted{hint and f'; {hint}'}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if debug:
            traceback.print_exception(error)
        _give_up(error, getattr(verb, "verb", verb))


def parsed(words: Sequence[str]) -> Verb:
    """The verb that the words ask for; help and completion exit, words that are not understood are an error."""
    if not words or words[0] in ("-h", "--help"):
        print(general_help(VERBS), end="")
        sys.exit(DONE)
    if words[0] in (PRINT, WRITE):
        _check_completion(words)
        complete(
            words,
            lambda: tyro.extras.subcommand_cli_from_dict({**VERBS}, prog="batchcut", args=words, config=_SETTINGS),
        )
        sys.exit(DONE)
    if words[0] not in VERBS:
        raise _no_verb("batchcut", words[0], VERBS)
    return _read(f"batchcut {words[0]}", VERBS[words[0]], words[1:])


def _read(name: str, kind: Callable[..., Verb], words: Sequence[str]) -> Verb:
    """The record of a verb, from the words after it."""
    verbs: dict[str, Callable[..., Verb]] = getattr(kind, "verbs", {})
    if not verbs:
        words = in_order(name, kind, words)
    elif not words or words[0] not in (*verbs, "-h", "--help"):
        raise _no_verb(name, words[0] if words else None, verbs)
    elif words[0] in verbs:
        return kind(_read(f"{name} {words[0]}", verbs[words[0]], words[1:]))
    return tyro.cli(kind, prog=name, description=help_of(kind), args=words, config=_SETTINGS)


def _no_verb(name: str, got: str | None, verbs: Mapping[str, object]) -> UsageError:
    close = difflib.get_close_matches(got or "", verbs, n=1)
    hint = f"did you mean `{name} {close[0]}`? " if close else ""
    return UsageError(
        f"`{name}` must be followed by one of {', '.join(verbs)}; got {'nothing' if got is None else repr(got)}\n"
        f"{hint}`{name} --help` shows what each does."
    )


def _check_completion(words: Sequence[str]) -> None:
    shown = f"{words[0]} must be followed by one of {', '.join(SHELLS)}"
    if len(words) < 2 or words[1] not in SHELLS:
        raise UsageError(f"{shown}; got {repr(words[1]) if len(words) > 1 else 'nothing'}")
    if words[0] == WRITE and len(words) < 3:
        raise UsageError(f"{words[0]} {words[1]} must be followed by the file to write")


def _warning(message: Warning | str, *_: object, **__: object) -> str:
    """A warning as a line of its own, without the place in the code that it came from."""
    return f"batchcut: warning: {message}\n"


def _give_up(error: Exception, verb: Verb | None) -> NoReturn:
    """Says in a line or two what went wrong and what to do next, and exits."""
    if isinstance(error, ModuleNotFoundError):
        print(f'batchcut: {error}; pip install "batchcut[train,report]" brings what the verbs need', file=sys.stderr)
        sys.exit(WRONG_USE)
    if isinstance(error, ArithmeticError | ImportError | OSError | TypeError | ValueError):
        reason = _system_error(error) if isinstance(error, OSError) else str(error)
        print(f"batchcut: {reason if verb is None else as_options(type(verb), reason)}", file=sys.stderr)
        sys.exit(FAILED if _came_up(error) else WRONG_USE)
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    print(f"batchcut: this should not happen: {reason}\nThe same with --debug shows where.", file=sys.stderr)
    sys.exit(FAILED)


def _came_up(error: Exception) -> bool:
    """Whether the work failed although it was asked for rightly: it diverged, was killed, or a disk was full."""
    return (
        isinstance(error, ArithmeticError | ChildProcessError) or getattr(error, "errno", None) in _NO_FAULT_OF_THE_USER
    )


def _system_error(error: OSError) -> str:
    """What the system refused, without its number, and what to do next."""
    if error.strerror is None:
        return str(error)
    what = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return "; ".join(filter(None, (what, _ADVICE.get(error.errno or 0))))


def _versions() -> str:
    others = " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy", "scipy", "numba"))
    return f"batchcut {batchcut.__version__} (Python {platform.python_version()}, {others})"
