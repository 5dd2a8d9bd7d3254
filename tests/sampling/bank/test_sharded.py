"""A bank in shards: each row comes to the process that holds its sample, and the newest stays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling._helpers import DIM, pairs
from tests.sampling._shards import Meeting, bank_of, on_threads

from batchcut.sampling import EmbeddingBank, ShardedBank, Sharding


def alone(n: int, **given: Any) -> ShardedBank:
    return ShardedBank(n, DIM, sharding=Sharding(), **given)


@settings(max_examples=30, deadline=None)
@given(world=st.integers(1, 4), n=st.integers(4, 40), seed=st.integers(0, 100), half=st.booleans())
def test_all_shards_are_what_one_bank_would_hold(world: int, n: int, seed: int, half: bool) -> None:
    rng = np.random.default_rng(seed)
    dtype = torch.float16 if half else torch.float32
    u, v = pairs(n, seed=seed)
    steps = [np.array_split(rng.permutation(n)[: rng.integers(world, n + 1)], world) for _ in range(5)]
    joined_after = set(rng.integers(0, 5, 2).tolist()) | {4}
    whole = EmbeddingBank(n, DIM, dtype=dtype)
    for step, parts in enumerate(steps):
        index = torch.from_numpy(np.concatenate(parts))
        whole.record(index, u[index] + step, v[index] - step)

    def work(rank: int, meeting: Meeting) -> ShardedBank:
        bank = bank_of(rank, meeting, n, dtype=dtype)
        for step, parts in enumerate(steps):
            index = torch.from_numpy(parts[rank])
            bank.record(index, u[index] + step, v[index] - step)
            if step in joined_after:
                bank.join()
        return bank

    banks = on_threads(world, work)
    assert [k for bank in banks for k in bank.held] == list(range(n))
    for name in ("u", "v", "recorded_at"):
        assert torch.equal(torch.cat([getattr(bank, name) for bank in banks]), getattr(whole, name))
    assert {bank.clock for bank in banks} == {whole.clock}
    assert {bank.waiting for bank in banks} == {0}
    assert len({str(bank.agreement) for bank in banks}) == 1
    assert all(len(bank) == n and abs(len(bank.held) - n / world) < 1 for bank in banks)


def test_what_is_recorded_waits_and_is_counted() -> None:
    bank = alone(6)
    u, v = pairs(6)
    bank.record(torch.tensor([1, 2]), u[:2], v[:2])
    bank.record(torch.tensor([2, 3]), u[2:4], v[2:4])
    assert (bank.waiting, bank.recorded_since(0), bank.recorded_since(1), bank.coverage) == (4, 3, 2, 0)
    bank.join()
    assert (bank.waiting, bank.recorded_since(0), bank.recorded_since(1), bank.coverage) == (0, 3, 2, 0.5)
    assert torch.equal(bank.u[2], u[2])


def test_more_than_a_share_may_wait() -> None:
    bank = alone(5)
    u, v = pairs(5)
    for shift in range(4):
        bank.record(torch.arange(5), u.roll(shift, 0), v.roll(shift, 0))
    assert bank.waiting == 20
    bank.join()
    assert torch.equal(bank.u, u.roll(3, 0))
    assert bank.agreement.isnan()  # of each sample one row was joined


def test_what_is_recorded_is_a_copy() -> None:
    bank = alone(4)
    u, v = pairs(4)
    given = u.clone()
    bank.record(torch.arange(4), given, v)
    given.zero_()
    bank.join()
    assert torch.equal(bank.u, u)


def test_rows_that_are_not_finite_are_left_where_they_are() -> None:
    bank = alone(4)
    u, v = pairs(4)
    bank.record(torch.arange(4), u, v)
    bad = u.clone()
    bad[1], bad[2] = torch.nan, 0
    bank.record(torch.arange(4), bad.roll(0), v.roll(1, 0))
    with pytest.warns(RuntimeWarning, match="^2 embeddings were NaN, infinite in torch.float32, or zero"):
        bank.join()
    assert torch.equal(bank.u, u)
    assert bank.recorded_at.tolist() == [1, 0, 0, 1]


def test_a_width_that_one_process_alone_knows() -> None:
    def work(rank: int, meeting: Meeting) -> tuple[int, float]:
        bank = bank_of(rank, meeting, 6)
        bank.join()
        if rank == 0:
            bank.record(torch.tensor([5]), *(side[[5]] for side in pairs(6)))
        bank.join()
        return bank.dim, bank.coverage

    assert on_threads(2, work) == [(DIM, 0), (DIM, pytest.approx(1 / 3))]


def test_states_are_of_a_share() -> None:
    def work(rank: int, meeting: Meeting) -> dict[str, Any]:
        bank = bank_of(rank, meeting, 7)
        bank.record(torch.tensor([rank, 6 - rank]), *(side[[rank, 6 - rank]] for side in pairs(7)))
        with pytest.raises(RuntimeError, match="join the bank before its state is taken: 2 rows wait"):
            bank.state_dict()
        bank.join()
        state = bank.state_dict()
        again = bank_of(rank, meeting, 7)
        again.load_state_dict(state)
        torch.testing.assert_close(again.state_dict(), state, rtol=0, atol=0)
        return state

    first, second = on_threads(2, work)
    assert (first["held"], second["held"]) == ([0, 3, 7], [3, 7, 7])
    rule = r"state\['held'\] must be that of samples 0 to 3 of 7, as this process has kept it; got \[3, 7, 7\]"
    with pytest.raises(ValueError, match=rule):
        ShardedBank(7, DIM, sharding=Sharding(rank=0, world_size=2)).load_state_dict(second)


def test_a_share_in_a_file(tmp_path: Path) -> None:
    bank = ShardedBank(7, DIM, sharding=Sharding(), path=tmp_path / "bank")
    u, v = pairs(7)
    bank.record(torch.arange(7), u, v)
    bank.join()
    assert torch.equal(ShardedBank(7, DIM, sharding=Sharding(), path=tmp_path / "bank").u, u)


def test_banks_of_other_sizes_are_refused_by_all() -> None:
    def work(rank: int, meeting: Meeting) -> None:
        bank_of(rank, meeting, 7 + rank, dim=DIM).join()

    first, second = map(str, on_threads(2, work))
    rule = "the size (n, dim) and the precision of a bank must be the same in all processes; got "
    assert first == f"{rule}(7, {DIM}, 'torch.float32') here, and (8, {DIM}, 'torch.float32') in process 1"
    assert second == f"{rule}(8, {DIM}, 'torch.float32') here, and (7, {DIM}, 'torch.float32') in process 0"


def test_a_process_that_fails_fails_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(bank: ShardedBank, rows: Any) -> None:
        if bank.sharding.rank == 1:
            raise OSError("no room on the disk")

    monkeypatch.setattr(ShardedBank, "_take", take)

    def work(rank: int, meeting: Meeting) -> Any:
        bank = bank_of(rank, meeting, 6)
        bank.record(torch.arange(6), *pairs(6))
        bank.join()

    first, second, third = on_threads(3, work)
    assert (type(second), str(second)) == (OSError, "no room on the disk")
    for other in (first, third):
        assert (type(other), str(other)) == (RuntimeError, "process 1 failed: OSError: no room on the disk")


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"sharding": 3}, TypeError, "sharding must be a Sharding; got int"),
        ({"n": 3, "sharding": Sharding(world_size=4)}, ValueError, "n must be at least 4; got 3"),
        ({"cell_samples": 1}, ValueError, "cell_samples must be at least 2; got 1"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ShardedBank(**{"n": 10, "sharding": Sharding(), **given})
