"""Files that are there whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from batchcut._files import write_bytes


def test_an_error_names_the_path_of_the_caller_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "no" / "where"):
        with pytest.raises(OSError, match=rf": '{path}'$"):
            write_bytes(path, b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match=rf"Not a file, and a file would take its place: '{path}'$"):
        write_bytes(path, b"content")
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
