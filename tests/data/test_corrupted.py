from pathlib import Path

import numpy as np
import pytest
from tests.data._make import write_picture

from batchcut.data import load_corrupted
from batchcut.data._corrupted import _FIFTEEN, _NINETEEN
from batchcut.evaluation import CORRUPTIONS


def write_cifar_c(folder: Path, count: int = 3) -> None:
    folder.mkdir()
    for number, name in enumerate(_NINETEEN):
        values = np.zeros((5 * count, 32, 32, 3), np.uint8)
        values += np.arange(5 * count, dtype=np.uint8)[:, None, None, None]
        values[..., 1] = number
        np.save(folder / f"{name}.npy", values)


def write_tiny_c(folder: Path) -> None:
    for number, name in enumerate(_FIFTEEN):
        for severity in (1, 2):
            for row, place in enumerate(("n01/a", "n01/b", "n02/a")):
                flat = np.full((3, 64, 64), 10 * number + 5 * row + severity, np.uint8)
                write_picture(folder / name / str(severity) / f"{place}.JPEG", flat)


def test_the_names_are_those_of_the_corruptions_made_here() -> None:
    assert _NINETEEN == CORRUPTIONS
    assert set(_FIFTEEN) == {*CORRUPTIONS} - {"gaussian_blur", "saturate", "spatter", "speckle_noise"}


@pytest.mark.parametrize("severity", [1, 4])
def test_cifar100_c(severity: int, tmp_path: Path) -> None:
    write_cifar_c(tmp_path / "CIFAR-100-C")
    found = load_corrupted("cifar100-c", root=tmp_path, severity=severity)
    assert (len(found), len(found.corruptions)) == (3, 19)
    pixels = found.read("snow", range(1, 3))
    assert pixels.shape == (2, 3, 32, 32)
    assert pixels[:, 0, 0, 0].tolist() == [3 * (severity - 1) + 1, 3 * (severity - 1) + 2]
    assert (pixels[:, 1] == _NINETEEN.index("snow")).all()


def test_tiny_imagenet_c(tmp_path: Path) -> None:
    write_tiny_c(tmp_path / "Tiny-ImageNet-C")
    found = load_corrupted("tiny-imagenet-c", root=tmp_path, severity=2)
    assert (len(found), len(found.corruptions)) == (3, 15)
    pixels = found.read("contrast", range(3))
    assert pixels.shape == (3, 3, 64, 64)
    assert pixels[:, 0, 9, 9].tolist() == pytest.approx([12, 17, 22], abs=2)


def test_what_is_missing_or_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"CIFAR-100-C is not there: --download .* 2,918 MB from https"):
        load_corrupted("cifar100-c", root=tmp_path)
    folder = tmp_path / "CIFAR-100-C"
    write_cifar_c(folder)
    np.save(folder / "fog.npy", np.zeros((10, 32, 32, 3), np.uint8))
    with pytest.raises(ValueError, match="must hold files of one length; got fog with 2, brightness with more"):
        load_corrupted("cifar100-c", root=tmp_path)
    np.save(folder / "fog.npy", np.zeros((14, 32, 32, 3), np.uint8))
    with pytest.raises(ValueError, match=r"fog.npy must hold \(5n, 32, 32, 3\) uint8, n for each severity; got \(14,"):
        load_corrupted("cifar100-c", root=tmp_path)
    (folder / "fog.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"no such file: .*fog.npy"):
        load_corrupted("cifar100-c", root=tmp_path)
    write_tiny_c(tmp_path / "Tiny-ImageNet-C")
    (tmp_path / "Tiny-ImageNet-C" / "snow" / "1" / "n01" / "b.JPEG").unlink()
    with pytest.raises(ValueError, match=r"snow/1 must hold the same images as brightness; got 2 files"):
        load_corrupted("tiny-imagenet-c", root=tmp_path)
    with pytest.raises(ValueError, match=r"brightness/5 must hold images; got 0 files"):
        load_corrupted("tiny-imagenet-c", root=tmp_path, severity=5)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="name must be one of cifar100-c, tiny-imagenet-c; got 'cifar10-c'"):
        load_corrupted("cifar10-c")
    with pytest.raises(ValueError, match="severity must be at most 5; got 6"):
        load_corrupted("cifar100-c", severity=6)
