"""The file that a verb writes in the end, tried before the work is done."""

import tempfile
from pathlib import Path

from batchcut._errors import invalid


def check_target(path: Path) -> None:
    """Refuses a path at which no file can be made."""
    if path.is_dir():
        raise invalid("--out", "be a file", f"{path}, a folder")
    if path.exists() and not path.is_file():
        raise invalid("--out", "be a file", f"{path}, a device or a pipe")
    if not path.absolute().parent.is_dir():
        raise invalid("--out", "lie in a folder that is there", path)
    try:
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise invalid("--out", "lie in a folder where files can be made", f"{path} ({error.strerror})") from error
