"""A bank in a file: what it holds outlives the process, and any other file is refused."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.sampling._helpers import DIM, pairs

from batchcut.sampling import EmbeddingBank


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_goes_on_where_it_was(tmp_path: Path, dtype: torch.dtype) -> None:
    path = tmp_path / "bank"
    first = EmbeddingBank(7, DIM, dtype=dtype, path=path)
    first.record(torch.tensor([5, 2]), *pairs(2))
    first.record(torch.tensor([2, 0]), *pairs(2, seed=1))
    kept = {name: torch.as_tensor(value).clone() for name, value in first.state_dict().items()}
    del first
    again = EmbeddingBank(7, DIM, dtype=dtype, path=path)
    torch.testing.assert_close({k: torch.as_tensor(x) for k, x in again.state_dict().items()}, kept, rtol=0, atol=0)
    assert again.age.tolist() == [0, -1, 0, -1, -1, 1, -1]
    again.record(torch.tensor([1]), *pairs(1))
    assert again.clock == 3
    assert [found.name for found in tmp_path.iterdir()] == ["bank"]


def test_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    code = f"""
import os, signal, torch
from batchcut.sampling import EmbeddingBank
bank = EmbeddingBank(3, 2, path={str(tmp_path / "bank")!r})
bank.record(torch.tensor([1]), torch.tensor([[3.0, 4.0]]), torch.tensor([[5.0, 6.0]]))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    bank = EmbeddingBank(3, 2, path=tmp_path / "bank")
    assert bank.u.tolist() == [[0, 0], [3, 4], [0, 0]]
    assert bank.v.tolist() == [[0, 0], [5, 6], [0, 0]]
    assert (bank.clock, bank.seen.tolist()) == (1, [False, True, False])


def test_is_mapped_and_not_held(tmp_path: Path) -> None:
    n, dim = 100_000, 65_536
    EmbeddingBank(n, dim, path=tmp_path / "bank")  # 52 GB, of which no block is written but the clocks
    assert (tmp_path / "bank").stat().st_size == 48 + 8 * n + 2 * 4 * dim * n
    assert (tmp_path / "bank").stat().st_blocks * 512 < 2 * 8 * n


def test_state_moves_between_file_and_memory(tmp_path: Path) -> None:
    held, mapped = EmbeddingBank(4, DIM), EmbeddingBank(4, DIM, path=tmp_path / "bank")
    held.record(torch.tensor([3, 1]), *pairs(2))
    mapped.load_state_dict(held.state_dict())
    torch.save(mapped.state_dict(), tmp_path / "state.pt")
    back = EmbeddingBank(4, DIM)
    back.load_state_dict(torch.load(tmp_path / "state.pt"))
    torch.testing.assert_close(back.state_dict(), held.state_dict(), rtol=0, atol=0)


def test_pickle_finds_the_file_again(tmp_path: Path) -> None:
    bank = EmbeddingBank(1000, 100, path=tmp_path / "bank")
    bank.record(torch.tensor([3]), *pairs(1, dim=100))
    data = pickle.dumps(bank)
    assert len(data) < 2000
    other = pickle.loads(data)  # noqa: S301
    assert torch.equal(other.u, bank.u)
    bank.record(torch.tensor([4]), *pairs(1, dim=100))
    assert other.clock == 2
    assert other.seen[4]


def test_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "bank"
    for content in (b"", b"hello", b"x" * 1000):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^path must be the file of a bank, or not be there; got .*bank$"):
            EmbeddingBank(4, DIM, path=path)
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("n", "dim", "dtype", "found"),
    [
        (5, DIM, torch.float32, "4 samples, 6 wide, in float32"),
        (4, DIM + 1, torch.float32, "4 samples, 6 wide, in float32"),
        (4, DIM, torch.float16, "4 samples, 6 wide, in float32"),
    ],
)
def test_a_bank_of_another_size(tmp_path: Path, n: int, dim: int, dtype: torch.dtype, found: str) -> None:
    EmbeddingBank(4, DIM, path=tmp_path / "bank")
    bits = 16 if dtype == torch.float16 else 32
    rule = f"^path must hold a bank of {n} samples, {dim} wide, in float{bits}; got {found}, in .*bank$"
    with pytest.raises(ValueError, match=rule):
        EmbeddingBank(n, dim, dtype=dtype, path=tmp_path / "bank")


def test_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "bank"
    EmbeddingBank(4, DIM, path=path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(
        ValueError, match=r"^path must hold 272 bytes, as a whole bank of this size does; got 262 in .*$"
    ):
        EmbeddingBank(4, DIM, path=path)


def test_a_file_needs_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^device must be 'cpu' for a bank in a file; got 'meta'$"):
        EmbeddingBank(4, DIM, device="meta", path=tmp_path / "bank")
