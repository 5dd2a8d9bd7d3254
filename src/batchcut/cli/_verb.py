"""What all verbs have in common: the codes with which they end, and options that more than one of them has."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

from cyclopts import Parameter, Token

from batchcut._errors import invalid
from batchcut._files import check_folder_of, check_target

DONE, CHECK_FAILED, WRONG_USE, INTERRUPTED, OUTPUT_CLOSED = 0, 1, 2, 130, 141
FAILED = CHECK_FAILED


class Verb(Protocol):
    """What each verb is: a record of its options that runs and returns an exit code.

    Fields before `KW_ONLY` are words that stand for themselves, the others are options; docstrings of fields are their
    help. `examples` are pairs of a command and its meaning. A verb that can be gone on with says how in a method
    `after_interrupt`.
    """

    def run(self) -> int:
        """Does the work and prints what came out."""


def _whole(_: Any, tokens: Sequence[Token]) -> int | None:
    """Cyclopts itself takes 1.5 for 2."""
    word = tokens[0].value
    try:
        return None if word == "None" else int(word)
    except ValueError:
        raise ValueError(f"must be an integer; got {word!r}") from None


Integer = Annotated[int, Parameter(converter=_whole)]
OptionalInteger = Annotated[int | None, Parameter(converter=_whole)]
Out = Annotated[Path, Parameter(alias="-o")]
OptionalOut = Annotated[Path | None, Parameter(alias="-o")]
OptionalOutput = Annotated[Path | None, Parameter(alias=("-o", "--output"))]
"""Of verbs that called it --output once."""


def check_out(path: Path | None, *inputs: Path | None) -> None:
    """Refuses a path at which no file can be made, or at which one would replace an input, before the work is done."""
    import tempfile  # slow to load

    if path is None:
        return
    check_target("--out", path, inputs=inputs)
    check_folder_of("--out", path)
    try:
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise invalid("--out", "lie in a folder where files can be made", f"{path} ({error.strerror})") from error
