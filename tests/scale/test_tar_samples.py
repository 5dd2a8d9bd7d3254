"""Samples in tars are those that webdataset finds, and what is no whole tar is refused."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
import webdataset
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scale._shards import make_plan, write_tars
from webdataset.tariterators import base_plus_ext

from batchcut.scale import reshard
from batchcut.scale._tar_samples import split_name, tar_samples

NAME = st.text("ab./_", min_size=1, max_size=8)


@settings(max_examples=500, deadline=None)
@given(NAME)
def test_keys_are_those_of_webdataset(name: str) -> None:
    key, field = base_plus_ext(name)
    if split_name(name) is not None:
        assert split_name(name) == (key, field)
    else:
        assert key is None or name.startswith("__")


def write(path: Path, names: list[str], **settings: Any) -> Path:
    with tarfile.open(path, "w", **settings) as archive:
        for number, name in enumerate(names):
            entry = tarfile.TarInfo(name)
            entry.size = number
            archive.addfile(entry, io.BytesIO(bytes(number)))
    return path


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("files_left_open")
@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_samples_are_those_of_webdataset(kind: int, tmp_path: Path) -> None:
    long = "folder/" * 12
    names = [f"{long}{k:020}.{field}" for k in range(3) for field in ("JPG", "seg.png", "txt")]
    names += ["README", "__meta__.json", "a.txt", ".hidden", "b.txt", "a.txt", "d.e/f.g.h", "d.e/f.x", "ü.txt"]
    path = write(tmp_path / "x.tar", names, format=kind)
    found = list(tar_samples(path))
    expected = [sample["__key__"] for sample in webdataset.WebDataset(str(path), shardshuffle=False)]
    assert [sample.key for sample in found] == expected
    assert len(found) == 9
    plan = make_plan(9, 3)
    made = reshard(plan, path, tmp_path / "out", order="plan")
    again = list(webdataset.WebDataset(str(made.folder / made.shards[0]), shardshuffle=False))
    assert [sample["__key__"].split("/", 2)[2] for sample in again] == [expected[k] for k in plan.batches.ravel()]
    whole = list(webdataset.WebDataset(str(path), shardshuffle=False))
    for sample, number in zip(again, plan.batches.ravel().tolist(), strict=True):
        fields = {name: data for name, data in sample.items() if not name.startswith("__")}
        assert fields == {name: data for name, data in whole[number].items() if not name.startswith("__")}


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    (path,) = write_tars(tmp_path, 6)
    content = path.read_bytes()
    end = max(sample.stop for sample in tar_samples(path))
    for size in range(0, end + 512, 256):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"data-0\.tar must be a whole WebDataset tar, not compressed; got"):
            list(tar_samples(path))


@pytest.mark.parametrize(
    ("names", "settings", "says"),
    [
        (["a.txt", "a.TXT"], {}, "a.TXT twice in one sample"),
        (["a.txt"], {"pax_headers": {"path": "b.txt"}}, "headers for all its files: path"),
    ],
)
def test_what_webdataset_could_not_read(names: list[str], settings: Any, says: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x.tar", names, **settings)
    with pytest.raises(ValueError, match=rf"x\.tar must be a whole WebDataset tar, not compressed; got .*{says}"):
        list(tar_samples(path))


def test_a_compressed_tar(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
    with pytest.raises(ValueError, match=r"x\.tar must be a whole WebDataset tar, not compressed; got"):
        list(tar_samples(tmp_path / "x.tar"))


def test_many_tars_are_not_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchcut.scale._tar_samples._MOST_OPEN", 2)
    shards = write_tars(tmp_path, *[2] * 10)
    assert reshard(make_plan(20, 4), shards, tmp_path / "out").samples == 20
