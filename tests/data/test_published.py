"""The official layouts, made on the spot, and fetched from a server on the loopback."""

import hashlib
import io
import os
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.data._make import random_pixels, write_cifar, write_cifar100, write_idx, write_picture

from batchcut.data import Images, Split, _published, load
from batchcut.data._fetch import Archive, Source, checksum
from batchcut.data._published import CIFAR100, FASHION_MNIST, TINY_IMAGENET, read_idx

if TYPE_CHECKING:
    from tests.data.conftest import Server


def images_of(split: Split) -> tuple[Images, Images]:
    assert isinstance(split.train, Images)
    assert isinstance(split.test, Images)
    return split.train, split.test


def published(server: "Server", source: Source, content: bytes) -> Source:
    server.files[source.name] = content
    digest = hashlib.sha256(content).hexdigest()
    return replace(source, addresses=(server.url(source.name),), size=len(content), checksum=f"sha256:{digest}")


def pack(folder: Path, kind: str) -> bytes:
    buffer = io.BytesIO()
    if kind == "tar":
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            tar.add(folder, folder.name)
    else:
        with zipfile.ZipFile(buffer, "w") as packed:
            for path in sorted(folder.rglob("*")):
                packed.write(path, path.relative_to(folder.parent))
    return buffer.getvalue()


def test_cifar100_with_however_many_images(tmp_path: Path) -> None:
    pixels = write_cifar100(tmp_path / "cifar-100-python", train=7, test=5)
    for part, wanted in zip(images_of(load("cifar100", root=tmp_path)), pixels, strict=True):
        np.testing.assert_array_equal(part.pixels, wanted)
        assert part.labels is not None
        assert part.labels.tolist() == [(3 * i) % 100 for i in range(len(wanted))]


def test_cifar10_is_five_files_and_one(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    pixels = random_pixels(12, 3, 32)
    for number in range(5):
        write_cifar(folder / f"data_batch_{number + 1}", pixels[2 * number : 2 * number + 2], [number, 9], "labels")
    write_cifar(folder / "test_batch", pixels[10:], [1, 2], "labels")
    train, test = images_of(load("cifar10", root=tmp_path))
    np.testing.assert_array_equal(train.pixels, pixels[:10])
    np.testing.assert_array_equal(test.pixels, pixels[10:])
    assert train.labels is not None
    assert train.labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
    (folder / "data_batch_3").unlink()
    with pytest.raises(FileNotFoundError, match=r"no such file: .*data_batch_3"):
        load("cifar10", root=tmp_path)


BROKEN = {
    "a list": ([1, 2], "must hold a dictionary; got list"),
    "no pixels": ({b"fine_labels": [1]}, "must hold 'data' and 'fine_labels'; got 'fine_labels'"),
    "other pixels": (
        {b"data": np.zeros((2, 9), np.uint8), b"fine_labels": [1, 2]},
        r"must hold 'data' as \(n, 3072\) uint8; got \(2, 9\) uint8",
    ),
    "too few labels": (
        {b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [1]},
        "must hold 'fine_labels' as one integer for each image; got 1 entries",
    ),
    "a label too many": (
        {b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [1, 100]},
        "must hold 'fine_labels' from 0 to 99; got 1…100",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_other_pickles_are_no_cifar(kind: str, tmp_path: Path) -> None:
    import pickle

    content, text = BROKEN[kind]
    folder = tmp_path / "cifar-100-python"
    write_cifar100(folder)
    (folder / "train").write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match=text):
        load("cifar100", root=tmp_path)


def test_a_truncated_file(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-python"
    write_cifar100(folder)
    whole = (folder / "test").read_bytes()
    (folder / "test").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"test must be a pickle of arrays and plain containers, undamaged"):
        load("cifar100", root=tmp_path)


@pytest.mark.parametrize(("name", "size"), [("cifar100", "169 MB"), ("fashion-mnist", "26 MB")])
def test_what_is_missing_can_be_fetched(name: str, size: str, tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=rf"is not there: --download .* fetches {size} from http.*--root FOLDER"
    ):
        load(name, root=tmp_path)


def test_cifar100_is_fetched_unpacked_and_found_again(
    server: "Server", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels, _ = write_cifar100(tmp_path / "made" / "cifar-100-python")
    source = published(server, CIFAR100.source, pack(tmp_path / "made" / "cifar-100-python", "tar"))
    archive = replace(CIFAR100, source=source)
    monkeypatch.setitem(_published._ARCHIVES, "cifar100", (archive, _published._read_cifar100))
    told: list[tuple[str, int, int]] = []
    root = tmp_path / "root"
    for _ in range(2):
        train, _ = images_of(load("cifar100", root=root, download=True, progress=lambda *now: told.append(now)))
        np.testing.assert_array_equal(train.pixels, pixels)
    assert len(server.asked) == 1
    assert told[-1] == ("cifar-100-python.tar.gz", source.size, source.size)
    assert [path.name for path in root.iterdir()] == ["cifar-100-python"]


def test_an_archive_that_lies_there_is_unpacked_without_the_net(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar100(tmp_path / "made" / "cifar-100-python")
    content = pack(tmp_path / "made" / "cifar-100-python", "tar")
    digest = hashlib.sha256(content).hexdigest()
    archive = Archive(
        source=replace(CIFAR100.source, addresses=(), size=len(content), checksum=f"sha256:{digest}"),
        folder=CIFAR100.folder,
        unpacked=CIFAR100.unpacked,
    )
    monkeypatch.setitem(_published._ARCHIVES, "cifar100", (archive, _published._read_cifar100))
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(content[:-1])
    with pytest.raises(ValueError, match=r"cifar-100-python.tar.gz must have the checksum"):
        load("cifar100", root=tmp_path)
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(content)
    assert len(load("cifar100", root=tmp_path).train) == 7
    assert (tmp_path / "cifar-100-python.tar.gz").exists()


def write_fashion(folder: Path, *, packed: bool) -> None:
    for source, values in zip(
        FASHION_MNIST,
        (
            random_pixels(6, 1, 28)[:, 0],
            np.arange(6, dtype=np.uint8),
            random_pixels(4, 1, 28, seed=1)[:, 0],
            np.arange(4, dtype=np.uint8),
        ),
        strict=True,
    ):
        write_idx(folder / (source.name if packed else source.name.removesuffix(".gz")), values)


@pytest.mark.parametrize("packed", [True, False])
def test_fashion_mnist(packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "fashion-mnist"
    write_fashion(folder, packed=packed)
    if packed:
        sums = [checksum(folder / source.name, "sha256") for source in FASHION_MNIST]
        sources = tuple(replace(source, checksum=found) for source, found in zip(FASHION_MNIST, sums, strict=True))
        monkeypatch.setattr(_published, "FASHION_MNIST", sources)
    train, test = images_of(load("fashion-mnist", root=tmp_path))
    np.testing.assert_array_equal(train.pixels, random_pixels(6, 1, 28))
    np.testing.assert_array_equal(test.pixels, random_pixels(4, 1, 28, seed=1))
    assert test.labels is not None
    assert test.labels.tolist() == [0, 1, 2, 3]


def test_fashion_mnist_of_another_size_is_another_set(tmp_path: Path) -> None:
    write_fashion(tmp_path / "fashion-mnist", packed=False)
    write_idx(tmp_path / "fashion-mnist" / "t10k-images-idx3-ubyte", random_pixels(4, 1, 8)[:, 0])
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte must hold images of 28 × 28; got \(8, 8\)"):
        load("fashion-mnist", root=tmp_path)


def test_fashion_mnist_is_fetched(server: "Server", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fashion(tmp_path / "made", packed=True)
    sources = tuple(published(server, s, (tmp_path / "made" / s.name).read_bytes()) for s in FASHION_MNIST)
    monkeypatch.setattr(_published, "FASHION_MNIST", sources)
    assert len(load("fashion-mnist", root=tmp_path / "root", download=True).train) == 6
    found = (path.name for path in (tmp_path / "root" / "fashion-mnist").iterdir())
    assert sorted(found) == sorted(source.name for source in sources)


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda data: data[:-9], "fails"),
        (lambda data: b"plain text", "Not a gzipped file"),
        (lambda data: data[:20] + b"xx" + data[22:], "fails"),
    ],
)
def test_damaged_idx(damage: "object", text: str, tmp_path: Path) -> None:
    write_fashion(tmp_path / "fashion-mnist", packed=True)
    path = tmp_path / "fashion-mnist" / FASHION_MNIST[0].name
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(ValueError, match=rf"ubyte.gz must be a whole IDX file of bytes; got one that .*{text}"):
        read_idx(path, 3)


def test_a_file_that_is_there_already_must_be_the_published_one(tmp_path: Path) -> None:
    write_fashion(tmp_path / "fashion-mnist", packed=True)
    for download in (False, True):
        with pytest.raises(
            ValueError, match=r"idx3-ubyte\.gz must have the checksum sha256:3aed.*; got sha256:.*: delete"
        ):
            load("fashion-mnist", root=tmp_path, download=download)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\0\0\x08\x01\0\0\0\x05abc", r"less than the 5 bytes of shape \(5,\)"),
        (b"\0\0\x08\x01\0\0\0\x02abc", r"more than the 2 bytes of shape \(2,\)"),
        (b"\0\0\x0d\x01\0\0\0\x02abcdefgh", "its first bytes are 0, 13, 1, not 0, 8, 1"),
        (b"\0\0\x08\x01\xff\xff\xff\xffabc", "its shape is"),
        (b"\0\0", "fails"),
    ],
)
def test_idx_that_does_not_fit(content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match=text):
        _published.read_idx(tmp_path / "x", 1)


def write_tiny(folder: Path) -> None:
    names = ("n02", "n01")
    folder.mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(names))
    for number, name in enumerate(names):
        for index in range(3):
            flat = np.full((3 if index else 1, 64, 64), 40 * index + 100 * number, np.uint8)
            write_picture(folder / "train" / name / "images" / f"{name}_{index}.JPEG", flat)
    rows = []
    for index in range(4):
        write_picture(folder / "val" / "images" / f"val_{index}.JPEG", np.full((3, 64, 64), 60 * index, np.uint8))
        rows.append(f"val_{index}.JPEG\t{names[index % 2]}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(rows))


def test_tiny_imagenet_is_fetched(server: "Server", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny(tmp_path / "made" / "tiny-imagenet-200")
    source = published(server, TINY_IMAGENET.source, pack(tmp_path / "made" / "tiny-imagenet-200", "zip"))
    archive = replace(TINY_IMAGENET, source=source)
    monkeypatch.setitem(_published._ARCHIVES, "tiny-imagenet", (archive, _published._read_tiny_imagenet))
    train, test = images_of(load("tiny-imagenet", root=tmp_path / "root", download=True))
    assert train.pixels.shape == (6, 3, 64, 64)
    assert train.labels is not None
    assert test.labels is not None
    assert train.labels.tolist() == [0, 0, 0, 1, 1, 1]  # n01 comes first
    assert test.labels.tolist() == [1, 0, 1, 0]
    assert train.pixels[:, 0, 9, 9].tolist() == pytest.approx([100, 140, 180, 0, 40, 80], abs=2)
    assert test.pixels[:, 2, 9, 9].tolist() == pytest.approx([0, 60, 120, 180], abs=2)


def test_tiny_imagenet_with_something_missing(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-imagenet-200"
    write_tiny(folder)
    (folder / "val" / "images" / "val_2.JPEG").unlink()
    with pytest.raises(FileNotFoundError, match=r"no such file: .*val_2.JPEG"):
        load("tiny-imagenet", root=tmp_path)
    (folder / "wnids.txt").write_text("n01\nn02\nn03\n")
    with pytest.raises(ValueError, match=r"train must hold images of each class in wnids.txt; got none of n03"):
        load("tiny-imagenet", root=tmp_path)
    (folder / "wnids.txt").write_text("n01\n")
    with pytest.raises(ValueError, match=r"train must hold the classes in wnids.txt; got n02"):
        load("tiny-imagenet", root=tmp_path)
    (folder / "wnids.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"wnids.txt"):
        load("tiny-imagenet", root=tmp_path)


REAL = os.environ.get("BATCHCUT_TEST_CIFAR100")


@pytest.mark.skipif(not REAL, reason="BATCHCUT_TEST_CIFAR100 does not name the folder that holds cifar-100-python")
def test_the_real_cifar100() -> None:
    train, test = images_of(load("cifar100", root=Path(REAL or "")))
    assert train.shape == test.shape == (3, 32, 32)
    assert train.labels is not None
    assert train.labels[:5].tolist() == [19, 29, 0, 11, 1]  # cattle, dinosaur, apple, boy, aquarium fish
    assert 110 < train.pixels.mean() < 130
