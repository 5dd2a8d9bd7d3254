from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from batchcut.data import Pairs, load

Arrays = dict[str, npt.NDArray[np.float32]]
NAMES = ("train_u", "train_v", "test_u", "test_v")


def arrays(kind: type = np.float32) -> Arrays:
    rng = np.random.default_rng(0)
    shapes = ((30, 5), (30, 3), (8, 5), (8, 3))
    return {name: rng.standard_normal(shape).astype(kind) for name, shape in zip(NAMES, shapes, strict=True)}


def write_npz(folder: Path, content: Arrays) -> str:
    np.savez(folder / "pairs.npz", **content)  # type: ignore[arg-type]
    return str(folder / "pairs.npz")


def write_compressed(folder: Path, content: Arrays) -> str:
    np.savez_compressed(folder / "pairs.npz", **content)  # type: ignore[arg-type]
    return str(folder / "pairs.npz")


def write_npy(folder: Path, content: Arrays) -> str:
    for name, values in content.items():
        np.save(folder / f"{name}.npy", values)
    if set(content) == {"u", "v"}:
        return f"{folder / 'u.npy'}, {folder / 'v.npy'}"
    return str(folder)


def write_folder(folder: Path, content: Arrays) -> str:
    write_npy(folder, content)
    return str(folder)


def write_safetensors(folder: Path, content: Arrays) -> str:
    safetensors.numpy.save_file(content, folder / "pairs.safetensors", metadata={"made": "here"})
    return str(folder / "pairs.safetensors")


def write_parquet(folder: Path, content: Arrays) -> str:
    if "u" in content:
        columns = {side: list(content[side]) for side in ("u", "v")}
        table = pyarrow.table(columns)
    else:
        sides = {side: [*content[f"train_{side}"], *content[f"test_{side}"]] for side in ("u", "v")}
        split = ["train"] * len(content["train_u"]) + ["test"] * len(content["test_u"])
        table = pyarrow.table(sides | {"split": split})
    pyarrow.parquet.write_table(table, folder / "pairs.parquet", row_group_size=7)
    return str(folder / "pairs.parquet")


WRITERS = [write_npz, write_compressed, write_npy, write_folder, write_safetensors, write_parquet]
MAPPED = [write_npz, write_folder, write_safetensors]
Write = Callable[[Path, Arrays], str]


def parts(address: str, seed: int = 0) -> tuple[Pairs, Pairs]:
    split = load(f"pairs:{address}", seed=seed)
    assert isinstance(split.train, Pairs)
    assert isinstance(split.test, Pairs)
    return split.train, split.test


@pytest.mark.parametrize("write", WRITERS)
def test_named_parts(write: Write, tmp_path: Path) -> None:
    content = arrays()
    train, test = parts(write(tmp_path, content))
    for found, name in zip((train.u, train.v, test.u, test.v), NAMES, strict=True):
        np.testing.assert_array_equal(found, content[name])
        assert found.dtype == np.float32


@pytest.mark.parametrize("write", MAPPED)
def test_named_parts_stay_on_disk(write: Write, tmp_path: Path) -> None:
    train, _ = parts(write(tmp_path, arrays(np.float16)))
    assert isinstance(train.u, np.memmap)
    assert train.u.dtype == np.float16
    assert not train.u.flags.writeable


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


def test_fortran_order_and_other_byte_order(tmp_path: Path) -> None:
    content = arrays()
    turned = {name: np.asfortranarray(values.astype(">f4")) for name, values in content.items()}
    train, _ = parts(write_npz(tmp_path, turned))
    np.testing.assert_array_equal(train.u, content["train_u"])


def test_bfloat16(tmp_path: Path) -> None:
    tensors = {name: torch.from_numpy(values).bfloat16() for name, values in arrays().items()}
    safetensors.torch.save_file(tensors, tmp_path / "x.safetensors")
    train, _ = parts(str(tmp_path / "x.safetensors"))
    np.testing.assert_array_equal(train.u, tensors["train_u"].float().numpy())


def test_a_comma_in_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "a,b"
    folder.mkdir()
    assert len(parts(write_npz(folder, arrays()))[0]) == 30


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"train_u": np.zeros(0)},
            "must hold arrays named train_u, train_v, test_u, test_v, or u and v; got test_u, test_v",
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


def test_python_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", u=np.array([{}], object), v=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="it holds Python objects"):
        parts(str(tmp_path / "x.npz"))
    np.savez_compressed(tmp_path / "x.npz", u=np.array([{}], object), v=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        parts(str(tmp_path / "x.npz"))


HEADERS = [
    (b'{"u":{"dtype":"F32","shape":[2,2],"data_offsets":[0,99]}}', "u should take bytes 0 to 99"),
    (b'{"u":{"dtype":"F32","shape":[2,-2],"data_offsets":[0,16]}}', r"u has the shape \(2, -2\)"),
    (b'{"u":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]}}', "u holds I64"),
    (b'{"u":{"dtype":"F32"}}', "'shape'"),
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
        ({"u": [[1.0, 2], [3]], "v": [[1.0], [2]]}, "must hold lists of one length in the column u; got several"),
        ({"u": [[1.0], None], "v": [[1.0], [2]]}, "must hold lists of numbers without gaps in the column u"),
        ({"u": [1.0, 2.0], "v": [[1.0], [2]]}, "must hold lists of numbers without gaps in the column u; got double"),
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
