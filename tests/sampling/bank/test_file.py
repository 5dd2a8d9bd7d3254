"""A bank in a file: what it holds outlives the process, and any other file is refused."""

import gc
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.sampling._helpers import DIM, pairs

from batchcut._files import try_lock
from batchcut.sampling import EmbeddingBank, PlannedBatchSampler


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_goes_on_where_it_was(tmp_path: Path, dtype: torch.dtype) -> None:
    path = tmp_path / "bank"
    first = EmbeddingBank(7, DIM, dtype=dtype, path=path)
    first.record(torch.tensor([5, 2]), *pairs(2))
    first.record(torch.tensor([2, 0]), *pairs(2, seed=1))
    kept = {name: torch.as_tensor(value).clone() for name, value in first.state_dict().items()}
    del first
    gc.collect()  # a compilation under way may have left cycles that hold it
    again = EmbeddingBank(7, DIM, dtype=dtype, path=path)
    torch.testing.assert_close({k: torch.as_tensor(x) for k, x in again.state_dict().items()}, kept, rtol=0, atol=0)
    assert again.age.tolist() == [0, -1, 0, -1, -1, 1, -1]
    again.record(torch.tensor([1]), *pairs(1))
    assert again.clock == 3
    assert [found.name for found in tmp_path.iterdir()] == ["bank"]


@pytest.mark.slow
def test_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    code = f"""
import os, signal, torch
from batchcut._files import try_lock
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
    n, dim = 10_000, 6_553
    EmbeddingBank(n, dim, path=tmp_path / "bank")  # 0.5 GB, of which no block is written but the clocks
    assert (tmp_path / "bank").stat().st_size == 56 + 8 * n + 2 * 4 * dim * n
    assert (tmp_path / "bank").stat().st_blocks * 512 < 2 * 8 * n


PLANS_WITHOUT_ROOM = """
import resource, sys
import torch
from batchcut._files import try_lock
from batchcut.sampling import EmbeddingBank, PlannedBatchSampler
from batchcut.selection import Shuffle
torch.set_num_threads(1)
n, dim = 60_001, 512
bank = EmbeddingBank(n, dim, dtype=getattr(torch, sys.argv[2]), path=sys.argv[1])
random = torch.Generator().manual_seed(0)
for start in range(0, n - 1, 1000):  # the last is never seen
    rows = torch.randn(1000, dim, generator=random)
    bank.record(torch.arange(start, start + 1000), rows, rows + 1)
sampler = PlannedBatchSampler(bank, batch_size=64, selector=Shuffle(), shuffled_epochs=0)
small = EmbeddingBank(1000, dim)
small.record(torch.arange(1000), rows, rows + 1)
list(PlannedBatchSampler(small, batch_size=64, selector=Shuffle(), shuffled_epochs=0))  # what planning loads
held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (held * 1024 + 4 * n * dim, -1))  # half of what a copy in memory takes
print(len(list(sampler)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_is_planned_from_without_being_held(tmp_path: Path, dtype: str) -> None:
    command = [sys.executable, "-c", PLANS_WITHOUT_ROOM, str(tmp_path / "bank"), dtype]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout == "937\n", done.stderr
    assert [found.name for found in tmp_path.iterdir()] == ["bank"]


def test_plans_as_a_bank_in_memory_does(tmp_path: Path) -> None:
    plans = []
    for path in (None, tmp_path / "bank"):
        bank = EmbeddingBank(43, DIM, path=path)
        bank.record(torch.arange(40), *(3 * side[:40] for side in pairs(43)))
        sampler = PlannedBatchSampler(bank, batch_size=5, shuffled_epochs=0)
        plans.append({frozenset(batch) for batch in sampler})
    assert plans[0] == plans[1]


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
        ValueError, match=r"^path must hold 280 bytes, as a whole bank of this size does; got 270 in .*$"
    ):
        EmbeddingBank(4, DIM, path=path)


HOLDS = """
import sys, torch
from batchcut._files import try_lock
from batchcut.sampling import EmbeddingBank
bank = EmbeddingBank(4, 2, path=sys.argv[1])
bank.record(torch.tensor([1]), torch.ones(1, 2), torch.ones(1, 2))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_file_is_of_one_process_at_a_time_also_of_one_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "bank"
    command = [sys.executable, "-c", HOLDS, str(path)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == "open\n"
    text = rf"^path must be of a bank that no other process has open; each needs a file of its own; got {path}$"
    with pytest.raises(ValueError, match=text):
        EmbeddingBank(4, 2, path=path)
    other.kill()
    other.wait()
    other.stdin.close()
    other.stdout.close()
    bank = EmbeddingBank(4, 2, path=path)
    assert bank.seen.tolist() == [False, True, False, False]


def test_a_file_is_locked_as_long_as_a_bank_is_there(tmp_path: Path) -> None:
    path = tmp_path / "bank"
    bank = EmbeddingBank(4, DIM, path=path)
    copies = [pickle.loads(pickle.dumps(bank)), EmbeddingBank(4, DIM, path=path)]  # noqa: S301
    del bank
    gc.collect()  # a compilation under way may have left cycles that hold it
    for expected in (False, False, True):
        with path.open("rb") as file:
            assert try_lock(file) is expected
        del copies[:1]


@pytest.mark.slow
def test_processes_that_make_one_file_at_the_same_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "bank")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    others = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]
    said = [other.stdout.readline() for other in others if other.stdout is not None]
    for other in others:
        other.communicate()
    assert sorted(said) == ["", "open\n"]
    assert [found.name for found in tmp_path.iterdir()] == ["bank"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (56 + 8 * 2, 7),  # recorded later than now, as one that was being written when its process was killed
        (56 + 8 * 2, -5),
        (56 + 8 * 4 + 4 * DIM * 2, -1),  # NaN
    ],
)
def test_damaged_rows_are_named_and_left_out(tmp_path: Path, place: int, value: int) -> None:
    path = tmp_path / "bank"
    bank = EmbeddingBank(4, DIM, path=path)
    bank.record(torch.tensor([1, 2, 3]), *pairs(3))
    del bank
    gc.collect()  # a compilation under way may have left cycles that hold it
    content = bytearray(path.read_bytes())
    content[place : place + 8] = value.to_bytes(8, "little", signed=True)
    path.write_bytes(content)
    text = rf"^{path}: 1 of 4 rows were damaged, or not finite, or zero, and are taken for not recorded: 2$"
    with pytest.warns(RuntimeWarning, match=text):
        again = EmbeddingBank(4, DIM, path=path)
    assert again.seen.tolist() == [False, True, False, True]


def test_a_file_with_a_clock_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "bank"
    EmbeddingBank(4, DIM, path=path)
    content = bytearray(path.read_bytes())
    content[40:48] = (-3).to_bytes(8, "little", signed=True)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^path must hold a clock from 0 to 4611686018427387904; got -3 in {path}$"):
        EmbeddingBank(4, DIM, path=path)


def test_a_file_needs_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^device must be 'cpu' for a bank in a file; got 'meta'$"):
        EmbeddingBank(4, DIM, device="meta", path=tmp_path / "bank")
