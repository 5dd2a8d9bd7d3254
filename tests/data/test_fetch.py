import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from batchcut.data import _corrupted, _fetch, _published
from batchcut.data._fetch import Archive, Source, checksum, data_root, extract, fetch

if TYPE_CHECKING:
    from tests.data.conftest import Server

CONTENT = bytes(range(256)) * 20_000  # 5 MB: several blocks


def source_of(server: "Server", content: bytes = CONTENT, *, algorithm: str = "sha256") -> Source:
    server.files["data.bin"] = content
    digest = hashlib.new(algorithm, content).hexdigest()
    return Source(
        name="data.bin", addresses=(server.url("data.bin"),), size=len(content), checksum=f"{algorithm}:{digest}"
    )


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_file_is_fetched_with_progress(server: "Server", tmp_path: Path, algorithm: str) -> None:
    told: list[tuple[str, int, int]] = []
    target = fetch(
        source_of(server, algorithm=algorithm), tmp_path / "new" / "data.bin", progress=lambda *now: told.append(now)
    )
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["data.bin"]
    assert told[0] == ("data.bin", 0, len(CONTENT))
    assert told[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert [now[1] for now in told] == sorted({now[1] for now in told})


def test_it_goes_on_where_the_server_broke_off(server: "Server", tmp_path: Path) -> None:
    source = source_of(server)
    server.break_after, server.breaks = 2_000_000, 2
    assert fetch(source, tmp_path / "data.bin", wait=0).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=2000000-", "bytes=4000000-"]


def test_it_goes_on_from_an_earlier_call(server: "Server", tmp_path: Path) -> None:
    source = source_of(server)
    server.break_after, server.breaks = 1_000, 10
    with pytest.raises(ConnectionError, match=r"data.bin could not be fetched .*; 4,000 of 5,120,000 bytes are there"):
        fetch(source, tmp_path / "data.bin", wait=0)
    assert not (tmp_path / "data.bin").exists()
    server.breaks, server.asked = 0, []
    assert fetch(source, tmp_path / "data.bin", wait=0).read_bytes() == CONTENT
    assert server.asked == [("/data.bin", "bytes=4000-")]


def test_a_server_without_ranges_sends_all_again(server: "Server", tmp_path: Path) -> None:
    source = source_of(server)
    server.ranges, server.break_after, server.breaks = False, 3_000_000, 1
    assert fetch(source, tmp_path / "data.bin", wait=0).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=3000000-"]


def test_a_wrong_sum_is_refused_and_the_file_deleted(server: "Server", tmp_path: Path) -> None:
    source = source_of(server)
    server.files["data.bin"] = CONTENT[:-1] + b"x"
    with pytest.raises(ValueError, match=f"data.bin must have the checksum {source.checksum}; got sha256:"):
        fetch(source, tmp_path / "data.bin", wait=0)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_beginning_of_an_earlier_call_is_found_and_deleted(server: "Server", tmp_path: Path) -> None:
    source = source_of(server)
    (tmp_path / "data.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(ValueError, match="must have the checksum"):
        fetch(source, tmp_path / "data.bin", wait=0)
    assert fetch(source, tmp_path / "data.bin", wait=0).read_bytes() == CONTENT


def test_a_part_that_is_too_long_is_begun_again(server: "Server", tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"x" * (len(CONTENT) + 1))
    assert fetch(source_of(server), tmp_path / "data.bin", wait=0).read_bytes() == CONTENT


def test_a_file_that_has_shrunk_is_not_waited_for(server: "Server", tmp_path: Path) -> None:
    source = source_of(server)
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:5000])
    server.files["data.bin"] = CONTENT[:4000]  # the server answers 416
    with pytest.raises(ConnectionError, match="416"):
        fetch(source, tmp_path / "data.bin", wait=0)


def test_a_file_that_never_ends_is_left(server: "Server", tmp_path: Path) -> None:
    source = replace(source_of(server), size=1000)
    with pytest.raises(ConnectionError, match="more than the 1,000 bytes that were published"):
        fetch(source, tmp_path / "data.bin", wait=0)


def test_the_next_address_is_tried(server: "Server", tmp_path: Path) -> None:
    source = source_of(server)
    both = replace(source, addresses=(server.url("gone"), *source.addresses))
    assert fetch(both, tmp_path / "data.bin", wait=0).read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == ["/gone", "/data.bin"]


def test_a_missing_file_is_asked_for_once(server: "Server", tmp_path: Path) -> None:
    source = replace(source_of(server), addresses=(server.url("gone"),))
    with pytest.raises(ConnectionError, match="gone: 404"):
        fetch(source, tmp_path / "data.bin", wait=60)
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again(server: "Server", tmp_path: Path) -> None:
    source = source_of(server)
    server.answers = [503, 429]
    assert fetch(source, tmp_path / "data.bin", wait=0).read_bytes() == CONTENT
    assert len(server.asked) == 3


def test_nobody_there(tmp_path: Path) -> None:
    source = Source(name="x", addresses=("http://127.0.0.1:9/x",), size=4, checksum="md5:0")
    with pytest.raises(ConnectionError, match=r"x could not be fetched .* --root FOLDER .* names a folder that has it"):
        fetch(source, tmp_path / "x", wait=0)


def test_only_the_web(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"1234")
    source = Source(name="x", addresses=(secret.as_uri(),), size=4, checksum="md5:0")
    with pytest.raises(ValueError, match="addresses must begin with http:// or https://; got file:"):
        fetch(source, tmp_path / "x", wait=0)


def test_two_at_once_fetch_it_once(server: "Server", tmp_path: Path) -> None:
    source = source_of(server)
    threads = [threading.Thread(target=fetch, args=(source, tmp_path / "data.bin")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.asked) == 1
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["data.bin"]


def test_the_official_sources_are_well_formed() -> None:
    archives = [
        value for module in (_published, _corrupted) for value in vars(module).values() if isinstance(value, Archive)
    ]
    sources = [archive.source for archive in archives] + list(_published.FASHION_MNIST)
    assert len(sources) == 9
    for source in sources:
        algorithm, _, digest = source.checksum.partition(":")
        assert len(digest) == 2 * hashlib.new(algorithm).digest_size
        assert all(address.endswith(source.name) for address in source.addresses)
        assert source.addresses[0].startswith("https://")
        assert list(source.addresses) == sorted(source.addresses, key=lambda address: address.startswith("http://"))
    assert all(archive.unpacked > archive.source.size for archive in archives)


def test_checksum(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert checksum(tmp_path / "x", "md5") == "md5:900150983cd24fb0d6963f7d28e17f72"


def test_where_data_sets_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BATCHCUT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_root(None) == tmp_path / "batchcut"
    monkeypatch.setenv("BATCHCUT_DATA", "~/sets")
    assert data_root(None) == Path.home() / "sets"
    assert data_root(Path("~/other")) == Path.home() / "other"


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
    monkeypatch.setattr(_fetch, "_MOST_MEMBERS", 2)
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
