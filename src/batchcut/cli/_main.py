"""Parse, call, and turn what went wrong into an exit code."""

import importlib.metadata
import io
import os
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import tyro

import batchcut

from ._demo import Demo
from ._exit import DONE, INTERRUPTED, OUTPUT_CLOSED, WRONG_USE
from ._report import Report
from ._theory import Theory
from ._train import Train


class Verb(Protocol):
    """What each verb is: a record of its options that runs and returns an exit code."""

    def run(self) -> int:
        """Does the work and prints what came out."""


VERBS: dict[str, Callable[..., Verb]] = {"demo": Demo, "train": Train, "report": Report, "theory": Theory}


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
        description="Picks the mini-batches that teach a contrastive model most. "
        "`--version` prints the versions that matter; `--debug` shows the traceback of an error.",
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
        print("\nbatchcut: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except (OSError, TypeError, ValueError) as error:
        if debug:
            raise
        print(f"batchcut: {error}", file=sys.stderr)
        sys.exit(WRONG_USE)


def _versions() -> str:
    others = " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy", "scipy", "numba"))
    return f"batchcut {batchcut.__version__} (Python {platform.python_version()}, {others})"
