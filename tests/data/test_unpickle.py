import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from batchcut.data._unpickle import load_pickle

RECORD = {
    "data": np.arange(24, dtype=np.uint8).reshape(2, 12),
    "labels": [3, 1],
    "names": ["a", "b"],
    "raw": b"\x00\xff",
    "nested": ({"x": [np.array([1.5, -2], np.float32)]}, None, True, 2.5),
    "turned": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
}


def assert_same(found: object, wanted: object) -> None:
    if isinstance(wanted, np.ndarray):
        assert isinstance(found, np.ndarray)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    elif isinstance(wanted, dict):
        assert isinstance(found, dict)
        assert list(found) == list(wanted)
        for key, value in wanted.items():
            assert_same(found[key], value)
    elif isinstance(wanted, list | tuple):
        assert type(found) is type(wanted)
        assert len(found) == len(wanted)
        for mine, theirs in zip(found, wanted, strict=True):
            assert_same(mine, theirs)
    else:
        assert found == wanted
        assert type(found) is type(wanted)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_containers_of_every_protocol(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "record"
    path.write_bytes(pickle.dumps(RECORD, protocol))
    assert_same(load_pickle(path), RECORD)


def short(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text


def python2_array(data: bytes) -> bytes:
    """What Python 2's cPickle writes for a (2, n) array of uint8, with its strings as byte strings."""
    dtype = b"cnumpy\ndtype\nq\x02" + short(b"u1") + b"K\x00K\x01\x87Rq\x03(K\x03" + short(b"|") + b"NNN"
    dtype += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"K\x02K" + bytes([len(data) // 2]) + b"\x86"
    raw = b"T" + struct.pack("<i", len(data)) + data
    start = b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nK\x00\x85" + short(b"b") + b"\x87R"
    return start + b"(K\x01" + shape + dtype + b"\x89" + raw + b"tb"


def test_a_pickle_of_python_2(tmp_path: Path) -> None:
    data = bytes(range(120, 130))
    path = tmp_path / "old"
    path.write_bytes(b"\x80\x02}(" + short(b"data") + python2_array(data) + short(b"labels") + b"](K\x05K\x07eu.")
    assert pickle.loads(path.read_bytes(), encoding="bytes")[b"labels"] == [5, 7]  # noqa: S301
    found = load_pickle(path)
    assert_same(found, {b"data": np.frombuffer(data, np.uint8).reshape(2, 5), b"labels": [5, 7]})


class Command:
    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple[object, ...]:
        return self.call[0], self.call[1:]


def test_a_command_is_not_run(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    path = tmp_path / "evil"
    path.write_bytes(pickle.dumps({"data": Command(Path.touch, victim)}))
    with pytest.raises(ValueError, match=r"evil must be a pickle of arrays and plain containers, undamaged; got the "):
        load_pickle(path)
    assert not victim.exists()


REFUSED = {
    "builtin": (b"cbuiltins\neval\n(V1+1\ntR.", "the name builtins.eval"),
    "system": (b"cos\nsystem\n(Vtrue\ntR.", "the name (os|posix).system"),
    "dotted": (b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.dump\x93.", "the name numpy.ndarray.dump"),
    "instance": (b"(ios\nsystem\n.", "the instruction INST"),
    "new object": (b"\x80\x02cnumpy\nndarray\n)\x81.", "the instruction NEWOBJ"),
    "persistent": (b"Psomething\n.", "the instruction PERSID"),
    "extension": (b"\x80\x02\x82\x01.", "the instruction EXT1"),
    "object array": (pickle.dumps(np.array([{}], object)), "an array of type 'O8'"),
    "structured": (pickle.dumps(np.zeros(2, "i4,f4")), "an array of type 'V8'"),
    "text array": (pickle.dumps(np.array(["a"])), "an array of type 'U1'"),
    "function as value": (b"cnumpy\nndarray\n.", "a type or a function as a value"),
    "state of a function": (b"\x80\x02cnumpy\nndarray\n}b.", "a function with a state"),
    "no contents": (b"cnumpy.core.multiarray\n_reconstruct\n(tR.", "an array without contents"),
    "shape against bytes": (python2_array(b"abcd").replace(b"K\x02\x86", b"K\x63\x86") + b".", "an array of shape"),
    "memory cell": (b"Nr\xff\xff\xff\x7f.", "a memory cell numbered 2147483647"),
    "itself": (b"\x80\x02]q\x00h\x00a.", "containers more than 16 deep"),
    "more after": (pickle.dumps(1) + b"x", "1 bytes after the end"),
    "other text": (b"\x1f\x8bgzip", "."),
    "empty": (b"", "."),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind: str, tmp_path: Path) -> None:
    program, reason = REFUSED[kind]
    path = tmp_path / "file"
    path.write_bytes(program)
    with pytest.raises(
        ValueError, match=f"file must be a pickle of arrays and plain containers, undamaged; got .*{reason}"
    ):
        load_pickle(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = pickle.dumps(RECORD)
    path = tmp_path / "cut"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="undamaged"):
            load_pickle(path)


def test_containers_shared_many_times_take_no_time(tmp_path: Path) -> None:
    value: list[object] = [1]
    for _ in range(12):
        value = [value] * 30
    path = tmp_path / "laughs"
    path.write_bytes(pickle.dumps(value))
    found = load_pickle(path)
    assert isinstance(found, list)
    assert found[0] is found[29]
