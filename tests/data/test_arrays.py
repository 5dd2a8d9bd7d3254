from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import safetensors.torch
import torch
from tests.data._make import (
    Arrays,
    arrays,
    parts,
    write_compressed,
    write_folder,
    write_npz,
    write_parquet,
    write_safetensors,
)

from batchcut.data import open_npy

Write = Callable[[Path, Arrays], str]


@pytest.mark.parametrize("write", [write_folder, write_safetensors])
def test_named_parts_stay_on_disk(write: Write, tmp_path: Path) -> None:
    train, _ = parts(write(tmp_path, arrays(np.float16)))
    assert isinstance(train.u, np.memmap)
    assert train.u.dtype == np.float16
    assert not train.u.flags.writeable


@pytest.mark.parametrize("write", [write_npz, write_compressed])
def test_npz_is_read_into_memory(write: Write, tmp_path: Path) -> None:
    train, _ = parts(write(tmp_path, arrays(np.float16)))
    assert not isinstance(train.u, np.memmap)
    assert train.u.dtype == np.float16


@pytest.mark.parametrize("write", [write_npz, write_folder])
def test_fortran_order_and_other_byte_order(write: Write, tmp_path: Path) -> None:
    content = arrays()
    turned = {name: np.asfortranarray(values.astype(">f4")) for name, values in content.items()}
    train, _ = parts(write(tmp_path, turned))
    np.testing.assert_array_equal(train.u, content["train_u"])


def test_bfloat16(tmp_path: Path) -> None:
    tensors = {name: torch.from_numpy(values).bfloat16() for name, values in arrays().items()}
    safetensors.torch.save_file(tensors, tmp_path / "x.safetensors")
    train, _ = parts(str(tmp_path / "x.safetensors"))
    np.testing.assert_array_equal(train.u, tensors["train_u"].float().numpy())


def test_arrays_beside_the_sides_may_hold_anything(tmp_path: Path) -> None:
    tensors = {name: torch.from_numpy(values) for name, values in arrays().items()}
    safetensors.torch.save_file(tensors | {"ids": torch.arange(3)}, tmp_path / "x.safetensors")
    train, _ = parts(str(tmp_path / "x.safetensors"))
    np.testing.assert_array_equal(train.u, tensors["train_u"].numpy())


@pytest.mark.parametrize("write", [write_npz, write_compressed, write_safetensors, write_parquet])
def test_damaged_files_are_named(write: Write, tmp_path: Path) -> None:
    path = Path(write(tmp_path, arrays()))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:5], b"", b"plain text, and some more of it"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"{path.name} must be a whole \{path.suffix} file"):
            parts(str(path))


def test_damaged_npy(tmp_path: Path) -> None:
    address = write_folder(tmp_path, arrays())
    path = tmp_path / "test_v.npy"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:20], b"", b"x" * 200):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"test_v.npy must be a whole .npy file of numbers; got one that fails"):
            parts(address)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_python_objects_are_not_unpickled(save: Callable[..., None], tmp_path: Path) -> None:
    save(tmp_path / "x.npz", u=np.array([{}], object), v=np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"x.npz must be a whole .npz file of numbers; got .*: Object arrays cannot"):
        parts(str(tmp_path / "x.npz"))


def test_python_objects_are_not_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.array([{}], object))
    with pytest.raises(ValueError, match=r"u.npy must be a whole .npy file of numbers; got .*: .*Python objects"):
        parts(str(tmp_path))


def test_an_empty_array_is_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((0, 5), np.float32))
    assert open_npy(tmp_path / "x.npy").shape == (0, 5)


HEADERS = [
    (b'{"u":{"dtype":"F32","shape":[2,2],"data_offsets":[0,99]}}', "u should take bytes 0 to 99"),
    (b'{"u":{"dtype":"F32","shape":[2,-2],"data_offsets":[0,16]}}', r"u has the shape \(2, -2\)"),
    (b'{"u":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]}}', "u holds I64"),
    (b'{"u":{"dtype":"F32"}}', "'shape'"),
    (b'{"u":{"dtype":["F32"],"shape":[2,2],"data_offsets":[0,16]}}', "fails"),
    (b'{"u":' + b"[" * 100_000, "fails"),
    (b'{"u":{"dtype":"F32","shape":[2,2],"data_offsets":16}}', "fails"),
    (b"[]", "fails"),
    (b"{", "fails"),
]


@pytest.mark.parametrize(("header", "text"), HEADERS)
def test_headers_that_lie(header: bytes, text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    with pytest.raises(ValueError, match=text):
        parts(str(path))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"u": [[1.0, 2], [3]], "v": [[1.0], [2]]}, "lists of several lengths in the column u"),
        ({"u": [[1.0], None], "v": [[1.0], [2]]}, "a list or a number is missing in the column u"),
        ({"u": [1.0, 2.0], "v": [[1.0], [2]]}, "no lists of numbers in the column u, but double"),
        ({"u": [{"x": 1.0}], "v": [[1.0]]}, "no lists of numbers in the column u, but struct"),
        ({"u": [[1.0], [2]], "v": [[1.0], [2]], "split": ["train", "dev"]}, "in the column split; got 'dev'"),
        ({"x": [1]}, "must hold arrays named .*; got none"),
    ],
)
def test_tables_that_do_not_fit(columns: dict[str, list[object]], text: str, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=text):
        parts(str(tmp_path / "x.parquet"))


def test_fixed_size_lists(tmp_path: Path) -> None:
    content = arrays()
    flat = [pyarrow.array(content[f"train_{side}"].ravel()) for side in "uv"]
    lists = [pyarrow.FixedSizeListArray.from_arrays(values, width) for values, width in zip(flat, (5, 3), strict=True)]
    pyarrow.parquet.write_table(pyarrow.table(lists, names=["u", "v"]), tmp_path / "x.parquet")
    train, test = parts(str(tmp_path / "x.parquet"))
    assert sorted(np.concatenate([train.u, test.u])[:, 0]) == sorted(content["train_u"][:, 0])
