"""The script that completes words in a shell: what tyro writes, with its faults mended."""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

PRINT, WRITE = "--tyro-print-completion", "--tyro-write-completion"
SHELLS = ("bash", "zsh", "tcsh", "fish")


def mended(script: str) -> str:
    """The script with a line for each completion, paths where nothing else fits, and no None among choices."""
    for old, new in (
        ("print(completion)", 'print(completion.replace("\\n", " "))'),
        ('    matches+=("$completion")', '    [[ -z $completion ]] || matches+=("$completion")'),
        ("complete -F ", "complete -o default -F "),
    ):
        script = script.replace(old, new)
    return re.sub(r"'None', |, 'None'(?=\])", "", script)


def complete(words: Sequence[str], write: Callable[[], object]) -> None:
    """Mends what `write` prints or puts into the file that the words name; it ends by an exit."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            write()
    finally:
        sys.stdout.write(mended(printed.getvalue()))
        if words[0] == WRITE and (path := Path(words[2])).is_file():
            path.write_text(mended(path.read_text(encoding="utf-8")), encoding="utf-8")
