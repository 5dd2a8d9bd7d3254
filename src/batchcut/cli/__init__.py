"""The command line: one file per verb; each parses, calls and prints."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `batchcut` with the given arguments, those of the process if left out, and exits."""
    try:
        from ._main import main as run
    except KeyboardInterrupt:  # while all of it is loaded
        print("\nbatchcut: interrupted", file=sys.stderr)
        sys.exit(130)  # INTERRUPTED of `_verb`, which may not be loaded
    run(arguments)
