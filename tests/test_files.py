"""Files that are there whole or not at all."""

import os
import resource
import secrets
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from batchcut._files import check_target, existing_file, open_own, read_json, read_lines, reading, try_lock, write_bytes


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


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in (".file.notes.unfinished", ".other.0123abcd.unfinished")]
    for path in (*kept, tmp_path / ".file.0123abcd.unfinished"):
        path.write_bytes(b"content")
    with (tmp_path / ".file.0000000a.unfinished").open("wb") as written:  # by another process, now
        assert try_lock(written)
        write_bytes(tmp_path / "file", b"content")
        assert {path.name for path in tmp_path.iterdir()} == {"file", Path(written.name).name, *(p.name for p in kept)}


def test_nothing_is_written_through_a_link_that_lies_in_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thesis = tmp_path / "thesis"
    thesis.write_text("years")
    tokens = iter(["0123abcd"])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(tokens))
    (tmp_path / ".file.0123abcd.unfinished").symlink_to(thesis)
    (tmp_path / ".file.unfinished").symlink_to(thesis)
    with pytest.raises(FileExistsError, match=rf"File exists: '{tmp_path / 'file'}'$"):
        write_bytes(tmp_path / "file", b"content")
    with pytest.raises(OSError, match=r"a link, where a file must be: '.*\.unfinished'$"):
        open_own(tmp_path / ".file.unfinished")
    assert thesis.read_text() == "years"


def test_the_mode_of_a_replaced_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"first")
    new = stat.S_IMODE(path.stat().st_mode)
    assert new == 0o666 & ~_umask()
    for mode in (0o600, 0o640, 0o444):
        path.chmod(mode)
        write_bytes(path, b"second")
        assert stat.S_IMODE(path.stat().st_mode) == mode


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_name_of_any_length_that_the_system_takes(tmp_path: Path) -> None:
    for name in ("x" * 255, "ü" * 127):
        write_bytes(tmp_path / name, b"content")
        check_target("out", tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(ValueError, match=r"^out must be a path that a file can have; got .* \(File name too long\)$"):
        check_target("out", tmp_path / ("x" * 256))


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="the size of files cannot be limited here")
def test_an_error_while_writing_names_the_path(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match=rf"File too large: '{tmp_path / 'file'}'$"):
            write_bytes(tmp_path / "file", b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_is_read_or_belongs_to_a_run_is_refused(tmp_path: Path) -> None:
    for name in ("read", "hall/u.npy", "run/config.toml", "run/metrics.jsonl", "project/config.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "read")
    inputs = [tmp_path / "read", None, tmp_path / "hall", tmp_path / "nowhere"]
    for name in ("read", "link", "run/../read", "hall/u.npy"):
        with pytest.raises(ValueError, match=r"^out must be another file than those that are read; got .*$"):
            check_target("out", tmp_path / name, inputs=inputs)
    for name in ("run/config.toml", "run/new", "run/plans/new"):
        with pytest.raises(
            ValueError, match=rf"^out must lie outside the run in {tmp_path / 'run'}, which .*; got .*$"
        ):
            check_target("out", tmp_path / name, inputs=inputs)
    for name in ("new", "hall/plan.npz", "project/new", "project/config.toml"):
        check_target("out", tmp_path / name, inputs=inputs)


@pytest.mark.slow
def test_of_processes_that_write_to_one_path_each_file_is_whole(tmp_path: Path) -> None:
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


def test_of_blocks_within_blocks_the_inner_one_names_its_file() -> None:
    inner = pytest.raises(ValueError, match=r"^y\.bin must be whole; got 'bad'$")
    with inner, reading(FILE, "be whole"), reading("y.bin", "be whole", found=""):
        raise KeyError("bad")


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


def test_lines_end_at_newlines_alone(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffone\x0ctwo\u2028three\r\nfour\rfive\x85six\n\nseven".encode())
    assert read_lines(path, "be a text") == ["one\x0ctwo\u2028three", "four\rfive\x85six", "", "seven"]
    path.write_bytes(b"one\n")
    assert read_lines(path, "be a text") == ["one"]
    path.write_bytes(b"")
    assert read_lines(path, "be a text") == []
    path.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"text must be a text, in UTF-8; got one that fails: .* can't decode byte"):
        read_lines(path, "be a text")


def test_json_of_the_wrong_kind_is_an_error_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    for text, got in (("[]", "list where there must be dict"), ("{", "Expecting"), ("1" * 5000, "Exceeds the limit")):
        path.write_text(text)
        with pytest.raises(ValueError, match=rf"^{path} must be JSON, undamaged; got {got}"):
            read_json(path, dict)
    path.write_text('{"a": 1}')
    assert read_json(path, dict) == {"a": 1}


def test_what_a_reader_raises_becomes_one_line_of_limited_length() -> None:
    with (
        pytest.raises(ValueError, match=r"^x\.bin must be whole; got a b x+…$") as caught,
        reading(FILE, "be whole", found=""),
    ):
        raise RuntimeError("a\n  b " + 1000 * "x")
    assert len(str(caught.value)) < 600
