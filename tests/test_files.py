"""Files that are there whole or not at all."""

import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from batchcut._files import existing_file, reading, write_bytes


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


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere" / "file")
    for content in (b"first", b"second"):
        write_bytes(link, content)
        assert link.is_symlink()
        assert (tmp_path / "elsewhere" / "file").read_bytes() == content
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file"]


def test_what_a_killed_process_left_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".file.unfinished").write_bytes(b"longer than what comes")
    write_bytes(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_processes_that_write_to_one_path_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "file"
    program = """
import sys, time
from pathlib import Path
from batchcut._files import write_whole

def write(file):
    for _ in range(50):
        file.write(sys.argv[2].encode() * 1000)
        file.flush()
        time.sleep(0.001)

for _ in range(5):
    write_whole(Path(sys.argv[1]), write)
"""
    letters = "abc"
    writers = [subprocess.Popen([sys.executable, "-c", program, str(path), letter]) for letter in letters]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen.add(path.read_bytes())
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert seen | {path.read_bytes()} <= {letter.encode() * 50_000 for letter in letters}
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


DAMAGE = [zlib.error("bad"), RecursionError("bad"), MemoryError("bad"), KeyError("bad"), PermissionError("bad")]
FILE = Path("x.bin")


@pytest.mark.parametrize("error", DAMAGE)
def test_what_a_reader_raises_is_an_error_of_the_file(error: Exception) -> None:
    text = r"^x\.bin must be whole; got one that fails: .*bad"
    with pytest.raises(ValueError, match=text) as caught, reading(FILE, "be whole"):
        raise error
    assert caught.value.__cause__ is error


def test_an_error_without_words_gives_its_kind() -> None:
    text = r"^x\.bin must be whole; got MemoryError$"
    with pytest.raises(ValueError, match=text), reading(FILE, "be whole", found=""):
        raise MemoryError


@pytest.mark.parametrize("error", [FileNotFoundError("gone"), ImportError("missing"), KeyboardInterrupt()])
def test_what_is_no_damage_stays_as_it_is(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, reading(FILE, "be whole"):
        raise error
    assert caught.value is error


def test_a_file_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert existing_file(tmp_path / "file") == tmp_path / "file"
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match=rf"no such file: '{path}'$"):
            existing_file(path)
