import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from batchcut.data import _extract
from batchcut.data._extract import extract

MEMBERS = {"set/a.txt": b"first", "set/deep/b.bin": bytes(1000), "set/empty": b""}
Pack = Callable[[Path, dict[str, bytes]], Path]


def pack_tar(path: Path, members: dict[str, bytes], *, mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def pack_gz(path: Path, members: dict[str, bytes]) -> Path:
    return pack_tar(path, members, mode="w:gz")


def pack_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


PACKS = [pack_tar, pack_gz, pack_zip]


def found(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("pack", PACKS)
def test_plain_files_are_unpacked(pack: Pack, tmp_path: Path) -> None:
    archive = pack(tmp_path / "archive", MEMBERS)
    root = tmp_path / "root"
    root.mkdir()
    assert extract(archive, root, folder="set", limit=1005) == root / "set"
    assert found(root) == MEMBERS


def test_folders_as_members(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        entry = tarfile.TarInfo("set/void")
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.mkdir("set/void/")
    for name in ("x.tar", "x.zip"):
        root = tmp_path / f"for {name}"
        root.mkdir()
        assert (extract(tmp_path / name, root, folder="set", limit=1) / "void").is_dir()


BAD_NAMES = ["../escape", "set/../../escape", "/escape", "elsewhere/file", "set\\..\\..\\escape", "C:/escape", "."]


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_outside_the_folder_are_refused(pack: Pack, name: str, tmp_path: Path) -> None:
    root = tmp_path / "in" / "root"
    root.mkdir(parents=True)
    archive = pack(tmp_path / "archive", {"set/a.txt": b"first", name: b"bad"})
    with pytest.raises(ValueError, match=r"archive must hold plain files in set/ and nothing else; got the name"):
        extract(archive, root, folder="set", limit=10_000)
    assert found(tmp_path) == {"archive": archive.read_bytes()}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        entry = tarfile.TarInfo("set/link")
        entry.type, entry.linkname = kind, "/etc/passwd"
        archive.addfile(entry)
    with pytest.raises(ValueError, match="'set/link', which is neither a file nor a folder"):
        extract(tmp_path / "x.tar", tmp_path, folder="set", limit=10_000)


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        entry = zipfile.ZipInfo("set/link")
        entry.external_attr = 0o120777 << 16
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(ValueError, match="'set/link', which is neither a file nor a folder"):
        extract(tmp_path / "x.zip", tmp_path, folder="set", limit=10_000)


@pytest.mark.parametrize("pack", PACKS)
def test_a_bomb_is_left(pack: Pack, tmp_path: Path) -> None:
    archive = pack(tmp_path / "archive", {"set/a": bytes(700_000), "set/b": bytes(700_000)})
    with pytest.raises(ValueError, match="more bytes than it may unpack to"):
        extract(archive, tmp_path, folder="set", limit=1_000_000)
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_extract, "_MOST_MEMBERS", 2)
    with pytest.raises(ValueError, match="more than 2 members"):
        extract(pack_zip(tmp_path / "x", MEMBERS), tmp_path, folder="set", limit=10_000)


@pytest.mark.parametrize("pack", [pack_gz, pack_zip])
def test_damaged_archives(pack: Pack, tmp_path: Path) -> None:
    whole = pack(tmp_path / "archive", MEMBERS).read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"no archive at all", whole[:40] + b"xxxx" + whole[44:]):
        (tmp_path / "archive").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"archive must (be an undamaged archive|hold plain files)"):
            extract(tmp_path / "archive", tmp_path, folder="set", limit=10_000)
        assert [path.name for path in tmp_path.iterdir()] == ["archive"]


def test_an_archive_without_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must hold plain files in set/; got none"):
        extract(pack_tar(tmp_path / "x", {}), tmp_path, folder="set", limit=10)
