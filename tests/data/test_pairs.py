from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.data._make import (
    NAMES,
    Arrays,
    arrays,
    parts,
    write_compressed,
    write_folder,
    write_npy,
    write_npz,
    write_parquet,
    write_safetensors,
)

WRITERS = [write_npz, write_compressed, write_npy, write_folder, write_safetensors, write_parquet]
Write = Callable[[Path, Arrays], str]


@pytest.mark.parametrize("write", WRITERS)
def test_named_parts(write: Write, tmp_path: Path) -> None:
    content = arrays()
    train, test = parts(write(tmp_path, content))
    for found, name in zip((train.u, train.v, test.u, test.v), NAMES, strict=True):
        np.testing.assert_array_equal(found, content[name])
        assert found.dtype == np.float32


@pytest.mark.parametrize("write", WRITERS)
def test_whole_arrays_are_split_by_the_seed(write: Write, tmp_path: Path) -> None:
    content = arrays()
    whole = {"u": content["train_u"], "v": content["train_v"]}
    address = write(tmp_path, whole)
    train, test = parts(address)
    assert (len(train), len(test)) == (24, 6)
    rows = [np.flatnonzero((whole["u"] == row).all(axis=1))[0] for row in np.concatenate([train.u, test.u])]
    assert sorted(rows) == list(range(30))
    np.testing.assert_array_equal(np.concatenate([train.v, test.v]), whole["v"][rows])
    assert not np.array_equal(parts(address, seed=1)[1].u, test.u)


def test_a_comma_in_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "a,b"
    folder.mkdir()
    assert len(parts(write_npz(folder, arrays()))[0]) == 30


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"train_u": np.zeros(0)},
            "must hold arrays named train_u, train_v, test_u, test_v, or u and v, or just two; got test_u, test_v",
        ),
        ({"train_u": np.zeros((29, 5))}, "train_u and train_v: v must have as many rows as u, 29; got 30"),
        ({"test_u": np.zeros((8, 4))}, r"test must hold features as wide as train's, \(5, 3\); got \(4, 3\)"),
        ({"train_u": np.zeros((30, 5), int)}, "u must hold floating-point numbers; got int64"),
        ({"train_u": np.zeros(30)}, r"u must have two dimensions \(samples, features\); got shape \(30,\)"),
        (
            {"test_v": np.full((8, 3), np.inf)},
            "test_v must hold numbers that are finite in single precision; got others in row 0",
        ),
        (
            {"train_u": np.full((30, 5), 1e300)},
            "train_u must hold numbers that are finite in single precision; got others in row 0",
        ),
        ({"test_u": np.zeros((1, 5)), "test_v": np.zeros((1, 3))}, "test must hold at least 2 samples; got 1"),
        ({"test_u": np.zeros((0, 5)), "test_v": np.zeros((0, 3))}, "test must hold at least 2 samples; got 0"),
    ],
)
def test_arrays_that_do_not_fit(change: dict[str, npt.NDArray[np.float32]], text: str, tmp_path: Path) -> None:
    content = {name: values for name, values in (arrays() | change).items() if values.size or len(change) > 1}
    with pytest.raises(ValueError, match=text):
        parts(write_npz(tmp_path, content))


def test_addresses_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file: .*nowhere.npz"):
        parts(str(tmp_path / "nowhere.npz"))
    (tmp_path / "x.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"pairs must be .npz, .safetensors, .parquet, two .npy files or a folder"):
        parts(str(tmp_path / "x.csv"))
    with pytest.raises(ValueError, match=r"must be one file, a folder, or two .npy files; got 3 names in a,b,c"):
        parts("a,b,c")
    with pytest.raises(ValueError, match=r"must hold arrays named .*; got none"):
        parts(str(tmp_path))
