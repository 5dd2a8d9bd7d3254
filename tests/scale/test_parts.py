"""The folder of a plan in the making: its own parts are taken up, and nothing else."""

from pathlib import Path

import pytest

from batchcut.scale._parts import open_parts


def test_a_folder_is_made_and_taken_up(tmp_path: Path) -> None:
    for _ in range(2):
        with open_parts(tmp_path / "a" / "b", {"seed": 1}) as parts:
            assert parts.blocks.is_dir()
            assert parts.cells.is_dir()


def test_another_plan_is_refused(tmp_path: Path) -> None:
    with open_parts(tmp_path / "parts", {"seed": 1, "files": [["u.npy", 3, 4]]}):
        pass
    rule = r"parts must hold the parts of the same plan, with the same seed; got 1 in .*parts, and 2 now"
    with pytest.raises(ValueError, match=rule), open_parts(tmp_path / "parts", {"seed": 2, "files": [["u.npy", 3, 4]]}):
        pass
    rule = r"with the same files; got None in .*parts, and \['v.npy', 5, 4\] now"
    with (
        pytest.raises(ValueError, match=rule),
        open_parts(tmp_path / "parts", {"seed": 1, "files": [["u.npy", 3, 4], ["v.npy", 5, 4]]}),
    ):
        pass


def test_the_first_that_was_asked_for_is_named(tmp_path: Path) -> None:
    with open_parts(tmp_path / "parts", {"ranks": 1, "batches": 2}):
        pass
    rule = "with the same ranks; got 1 in .*parts, and 2 now"
    with pytest.raises(ValueError, match=rule), open_parts(tmp_path / "parts", {"ranks": 2, "batches": 1}):
        pass


def test_what_follows_from_memory_says_so(tmp_path: Path) -> None:
    with open_parts(tmp_path / "parts", {"block_rows": 1000}):
        pass
    rule = "with the same block_rows, which follow from memory; got 1000 in .*parts, and 2000 now"
    with pytest.raises(ValueError, match=rule), open_parts(tmp_path / "parts", {"block_rows": 2000}):
        pass


def test_of_many_files_the_one_that_changed_is_named(tmp_path: Path) -> None:
    files: list[list[object]] = [[f"u-{k}.npy", 3, 4] for k in range(1000)]
    with open_parts(tmp_path / "parts", {"files": files}):
        pass
    files[700] = ["u-700.npy", 5, 4]
    rule = r"with the same files; got \['u-700.npy', 3, 4\] in .*parts, and \['u-700.npy', 5, 4\] now"
    with pytest.raises(ValueError, match=rule), open_parts(tmp_path / "parts", {"files": files}):
        pass


def test_what_is_no_folder_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with (
        pytest.raises(ValueError, match=r"parts must be a folder; got .*file, a file"),
        open_parts(tmp_path / "file", {}),
    ):
        pass
    with (
        pytest.raises(ValueError, match="parts must be empty, or hold the parts of the same plan; got"),
        open_parts(tmp_path, {}),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_damage_is_named(tmp_path: Path) -> None:
    with open_parts(tmp_path / "parts", {}):
        pass
    (tmp_path / "parts" / "asked.json").write_text("[1")
    with pytest.raises(ValueError, match=r"asked\.json must be JSON, undamaged"), open_parts(tmp_path / "parts", {}):
        pass


def test_two_do_not_plan_in_one_folder(tmp_path: Path) -> None:
    with open_parts(tmp_path / "parts", {}):
        rule = "parts must be one that no other process plans in; got"
        with pytest.raises(ValueError, match=rule), open_parts(tmp_path / "parts", {}):
            pass
