"""Parse, call, and turn what went wrong into an exit code."""

import importlib.metadata
import io
import os
import platform
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

import tyro

import batchcut

from ._demo import Demo
from ._evaluate import Evaluate
from ._exit import DONE, FAILED, INTERRUPTED, OUTPUT_CLOSED, WRONG_USE
from ._report import Report
from ._select import Select
from ._theory import Theory
from ._train import Train


class Verb(Protocol):
    """What each verb is: a record of its options that runs and returns an exit code.

    A verb that can be gone on with says how in `after_interrupt`.
    """

    def run(self) -> int:
        """Does the work and prints what came out."""


VERBS: dict[str, Callable[..., Verb]] = {
    "demo": Demo,
    "select": Select,
    "train": Train,
    "evaluate": Evaluate,
    "report": Report,
    "theory": Theory,
}

_DESCRIPTION = """Picks the mini-batches that teach a contrastive model most.

`batchcut demo` shows what that does, in two minutes. `batchcut VERB --help` says more about each verb.

`--version` prints the versions that matter; `--debug`, with any verb, shows the traceback of an error.
`--tyro-print-completion bash` (or zsh, tcsh) prints a script that completes verbs and options in that shell.

Exit codes: 0 done, 1 a check or the work itself failed, 2 wrong use, 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `batchcut` with the given arguments, those of the process if left out, and exits."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that has no ρ gets a question mark, not an error.
        sys.stdout.reconfigure(errors="replace")
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if words == ["--version"]:
        print(_versions())
        sys.exit(DONE)
    verb = tyro.extras.subcommand_cli_from_dict(
        VERBS,
        prog="batchcut",
        description=_DESCRIPTION,
        args=words or ["--help"],
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    try:
        sys.exit(verb.run())
    except BrokenPipeError:
        # Whoever read the output has had enough. What is left in the buffer must go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(OUTPUT_CLOSED)
    except KeyboardInterrupt:
        hint = getattr(verb, "after_interrupt", "")
        print(f"\nbatchcut: interrupted{hint and f'; {hint}'}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if debug:
            raise
        _give_up(error)


def _give_up(error: Exception) -> NoReturn:
    """Says in a line or two what went wrong and what to do next, and exits."""
    if isinstance(error, ModuleNotFoundError):
        print(f'batchcut: {error}; pip install "batchcut[train,report]" brings what the verbs need', file=sys.stderr)
        sys.exit(WRONG_USE)
    if isinstance(error, OSError | TypeError | ValueError | ImportError):
        print(f"batchcut: {error}", file=sys.stderr)
        sys.exit(WRONG_USE)
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    print(f"batchcut: this should not happen: {reason}\nThe same with --debug shows where.", file=sys.stderr)
    sys.exit(FAILED)


def _versions() -> str:
    others = " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy", "scipy", "numba"))
    return f"batchcut {batchcut.__version__} (Python {platform.python_version()}, {others})"
