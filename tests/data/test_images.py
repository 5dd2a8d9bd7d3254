from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.data._make import random_pixels, write_picture

from batchcut.data import Images, load


def part(address: Path, which: str = "train", **settings: int) -> Images:
    images = getattr(load(f"folder:{address}", **settings), which)  # type: ignore[arg-type]
    assert isinstance(images, Images)
    return images


def both(address: Path, **settings: int) -> tuple[npt.NDArray[np.uint8], list[int] | None]:
    train, test = part(address, "train", **settings), part(address, "test", **settings)
    labels = None
    if train.labels is not None and test.labels is not None:
        labels = sorted([*train.labels.tolist(), *test.labels.tolist()])
    return np.concatenate([train.pixels, test.pixels]), labels


def test_one_folder_is_split_by_the_seed(tmp_path: Path) -> None:
    pixels = random_pixels(12, 3, 6)
    for row, image in enumerate(pixels):
        write_picture(tmp_path / f"{row:02}.png", image)
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / ".hidden.png").write_text("no image")
    found, labels = both(tmp_path)
    assert labels is None
    assert len(part(tmp_path, "test")) == 2
    np.testing.assert_array_equal(np.sort(found.reshape(12, -1), axis=0), np.sort(pixels.reshape(12, -1), axis=0))
    assert not np.array_equal(part(tmp_path, "test", seed=1).pixels, part(tmp_path, "test").pixels)


def test_sub_folders_are_classes(tmp_path: Path) -> None:
    for row in range(12):
        write_picture(tmp_path / "bca"[row % 3] / "deep" / f"{row}.png", np.full((3, 4, 4), 10 * row, np.uint8))
    train, test = part(tmp_path), part(tmp_path, "test")
    for images in (train, test):
        assert images.labels is not None
        rows = images.pixels[:, 0, 0, 0] // 10
        assert images.labels.tolist() == [{0: 1, 1: 2, 2: 0}[int(row) % 3] for row in rows]


def test_an_image_outside_the_classes_leaves_no_labels(tmp_path: Path) -> None:
    for row in range(10):
        write_picture(tmp_path / ("" if row == 0 else "a") / f"{row}.png", random_pixels(1, 3, 4)[0])
    assert part(tmp_path).labels is None


def test_a_training_part_alone_is_split_and_keeps_its_classes(tmp_path: Path) -> None:
    for row in range(10):
        write_picture(tmp_path / "train" / "ab"[row % 2] / f"{row}.png", np.full((3, 4, 4), 10 * row, np.uint8))
    train, test = part(tmp_path), part(tmp_path, "test")
    assert len(train) + len(test) == 10
    for images in (train, test):
        assert images.labels is not None
        assert images.labels.tolist() == (images.pixels[:, 0, 0, 0] // 10 % 2).tolist()


def test_train_beside_other_folders_is_a_class(tmp_path: Path) -> None:
    for row in range(10):
        write_picture(tmp_path / ("car", "train")[row % 2] / f"{row}.png", np.full((3, 4, 4), 10 * row, np.uint8))
    found = part(tmp_path)
    assert found.labels is not None
    assert found.labels.tolist() == (found.pixels[:, 0, 0, 0] // 10 % 2).tolist()


@pytest.mark.parametrize(("first", "name"), [("train", "test"), ("train", "val"), ("Train", "Test")])
def test_parts_share_their_classes(first: str, name: str, tmp_path: Path) -> None:
    for row, place in enumerate((f"{first}/a", f"{first}/b", f"{first}/c", f"{name}/c", f"{name}/a")):
        write_picture(tmp_path / place / f"{row}.png", np.full((3, 4, 4), row, np.uint8))
    train, test = part(tmp_path), part(tmp_path, "test")
    assert train.labels is not None
    assert test.labels is not None
    assert (train.pixels[:, 0, 0, 0].tolist(), train.labels.tolist()) == ([0, 1, 2], [0, 1, 2])
    assert (test.pixels[:, 0, 0, 0].tolist(), test.labels.tolist()) == ([4, 3], [0, 2])


def test_gray_images_stay_gray_unless_one_is_not(tmp_path: Path) -> None:
    for row in range(10):
        write_picture(tmp_path / f"{row}.png", random_pixels(1, 1, 4, seed=row)[0])
    assert part(tmp_path).shape == (1, 4, 4)
    write_picture(tmp_path / "color.png", random_pixels(1, 3, 4)[0])
    assert part(tmp_path).shape == (3, 4, 4)


def test_sizes_that_differ_become_the_shortest_side(tmp_path: Path) -> None:
    for row in range(10):
        flat = np.full((3, 20 + row, 30), 20 * row, np.uint8)
        write_picture(tmp_path / f"{row}.png", flat)
    assert part(tmp_path).shape == (3, 20, 20)
    assert part(tmp_path, image_size=8).shape == (3, 8, 8)
    found, _ = both(tmp_path)
    assert sorted(found[:, 1, 10, 10].tolist()) == [20 * row for row in range(10)]


def test_large_images_are_made_smaller(tmp_path: Path) -> None:
    for row in range(10):
        write_picture(tmp_path / f"{row}.png", np.zeros((1, 300, 240), np.uint8))
    assert part(tmp_path).shape == (1, 224, 224)


def test_the_middle_is_cut_out(tmp_path: Path) -> None:
    image = np.zeros((1, 4, 12), np.uint8)
    image[:, :, 4:8] = 255
    for row in range(10):
        write_picture(tmp_path / f"{row}.png", image)
    assert (part(tmp_path, image_size=4).pixels == 255).all()


def test_photographs_are_turned_as_they_are_shown(tmp_path: Path) -> None:
    pixels = np.zeros((8, 4, 3), np.uint8)
    pixels[:4] = 200
    notes = Image.Exif()
    notes[0x0112] = 6  # to be turned clockwise by a quarter
    for row in range(10):
        Image.fromarray(pixels).save(tmp_path / f"{row}.png", exif=notes)
    train = part(tmp_path)
    assert train.shape == (3, 4, 8)
    assert train.pixels[0, 0, 0].tolist() == [0] * 4 + [200] * 4


def test_palettes_and_transparency(tmp_path: Path) -> None:
    for row in range(5):
        Image.new("P", (4, 4)).save(tmp_path / f"p{row}.gif")
        Image.new("RGBA", (4, 4), (1, 2, 3, 0)).save(tmp_path / f"a{row}.png")
    assert part(tmp_path).shape == (3, 4, 4)


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*nowhere"):
        part(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="must hold at least 2 images; got none"):
        part(tmp_path)
    write_picture(tmp_path / "only.png", random_pixels(1, 3, 4)[0])
    with pytest.raises(ValueError, match=r"must hold at least 2 images; got one, only\.png"):
        part(tmp_path)
    write_picture(tmp_path / "second.png", random_pixels(1, 3, 4)[0])
    with pytest.raises(ValueError, match="must hold at least 10 samples to be split; got 2"):
        part(tmp_path)


def test_damaged_images_are_named(tmp_path: Path) -> None:
    for row in range(10):
        write_picture(tmp_path / f"{row}.png", random_pixels(1, 3, 40, seed=row)[0])
    whole = (tmp_path / "3.png").read_bytes()
    (tmp_path / "3.png").write_bytes(whole[:2000])
    with pytest.raises(ValueError, match=r"3.png must be a whole image; got one that fails: "):
        part(tmp_path)
    (tmp_path / "3.png").write_text("text")
    with pytest.raises(ValueError, match=r"3.png must be an image; got a file that is not: "):
        part(tmp_path)
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(tmp_path / "3.png")
    with pytest.raises(ValueError, match=r"3.png must have 8 bits per channel; got the mode I;16"):
        part(tmp_path)
