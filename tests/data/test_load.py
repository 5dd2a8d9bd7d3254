from pathlib import Path

import numpy as np
import pytest
from tests._launch import error_without, printed_by
from tests.data._make import arrays, random_pixels, write_parquet, write_picture

from batchcut.data import Images, load


def test_digits_need_nothing() -> None:
    split = load("digits")
    assert isinstance(split.train, Images)
    assert isinstance(split.test, Images)
    assert (len(split.train), len(split.test)) == (1438, 359)
    assert split.train.shape == (1, 8, 8)
    assert (split.train.pixels.min(), split.train.pixels.max()) == (0, 255)
    assert split.train.labels is not None
    assert set(split.train.labels.tolist()) == set(range(10))


def test_the_seed_splits() -> None:
    first, again, other = (load("digits", seed=seed).test for seed in (0, 0, 1))
    assert isinstance(first, Images)
    assert isinstance(again, Images)
    assert isinstance(other, Images)
    np.testing.assert_array_equal(first.pixels, again.pixels)
    assert not np.array_equal(first.pixels, other.pixels)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "nonsense",
            "name must be one of digits, functions, fashion-mnist, cifar10, .*folder:PATH, pairs:FILE; got 'nonsense'",
        ),
        ("files:x", "name must be one of .*; got 'files:x'"),
        ("pairs:", "name must say where after pairs:; got 'pairs:'"),
        ("folder:", "name must say where after folder:; got 'folder:'"),
    ],
)
def test_unknown_names(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        load(name)


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="name must be a string; got PosixPath"):
        load(Path("digits"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed must be at least 0; got -1"):
        load("digits", seed=-1)
    with pytest.raises(ValueError, match="image_size must be left alone unless the images come from folder:; got 8"):
        load("digits", image_size=8)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["PIL", "pyarrow"])
def test_a_missing_library_is_named_with_what_to_install(library: str, tmp_path: Path) -> None:
    if library == "PIL":
        for row in range(2):
            write_picture(tmp_path / f"{row}.png", random_pixels(1, 3, 4)[0])
        name, start = f"folder:{tmp_path}", "images in files need pillow"
    else:
        name, start = f"pairs:{write_parquet(tmp_path, arrays())}", "pairs in .parquet files need pyarrow"
    text = f'{start}, and {library} is not installed: pip install "batchcut[train]" brings it'
    assert error_without(library, f"from batchcut.data import load; load({name!r})") == text


@pytest.mark.slow
def test_importing_loads_nothing_heavy() -> None:
    loaded = set(printed_by("import sys; from batchcut import data; data.load; print('\\n'.join(sys.modules))").split())
    assert "numpy" in loaded
    assert not loaded & {"torch", "PIL", "pyarrow", "safetensors", "sklearn", "scipy", "rich"}
