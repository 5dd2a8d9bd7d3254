"""Files that must be there."""

import errno
from pathlib import Path


def existing(path: Path, *, hint: str = "") -> Path:
    """Returns `path`, if there is such a file."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, f"no such file{hint}", str(path))
    return path
