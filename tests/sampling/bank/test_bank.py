"""The last embedding of each sample: what is kept, what is refused, and what a state holds."""

import copy
import pickle
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.sampling._helpers import DIM, data_set, filled, pairs
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.data import DataLoader

from batchcut.sampling import EmbeddingBank, Indexed


def test_keeps_the_last_of_each_sample() -> None:
    bank = EmbeddingBank(5, DIM)
    u, v = pairs(6)
    bank.record(torch.tensor([0, 3, 1]), u[:3], v[:3])
    bank.record(torch.tensor([3, 4]), u[3:5], v[3:5])
    torch.testing.assert_close(bank.u[[0, 1, 3, 4]], u[[0, 2, 3, 4]])
    torch.testing.assert_close(bank.v[[0, 1, 3, 4]], v[[0, 2, 3, 4]])
    assert bank.recorded_at.tolist() == [0, 0, -1, 1, 1]
    assert bank.seen.tolist() == [True, True, False, True, True]
    assert bank.age.tolist() == [1, 1, -1, 0, 0]
    assert bank.clock == 2
    assert bank.coverage == pytest.approx(0.8)
    assert len(bank) == 5
    assert repr(bank) == "EmbeddingBank(5, 6, dtype=torch.float32, coverage=80.0%)"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["compiled", "by torch"])
def test_with_a_momentum_means_are_kept(dtype: torch.dtype) -> None:
    bank = EmbeddingBank(4, DIM, momentum=0.75, dtype=dtype)
    first, second = pairs(3), pairs(3, seed=1)
    bank.record(torch.arange(3), *first)
    near = partial(torch.testing.assert_close, rtol=0, atol=1e-6 if dtype == torch.float32 else 2e-2)
    near(bank.u[:3].float(), first[0])
    bank.record(torch.tensor([2, 3, 0]), *(7 * side for side in second))  # lengths do not matter
    for kept, old, new in zip((bank.u, bank.v), first, second, strict=True):
        expected = normalize(torch.stack([old[0] + new[2] / 3, 3 * old[1], old[2] + new[0] / 3]), dim=1)
        near(kept[:3].float(), expected)
        near(kept[3].float(), 7 * new[1])
    assert bank.age.tolist() == [0, 1, 0, 0]
    cosines = [(old[i] @ new[k]).item() for old, new in zip(first, second, strict=True) for i, k in ((2, 0), (0, 2))]
    assert bank.agreement.item() == pytest.approx(sum(cosines) / 4, abs=2e-3)
    assert repr(bank).startswith(f"EmbeddingBank(4, 6, dtype={dtype}, momentum=0.75, ")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["compiled", "by torch"])
def test_of_views_that_cancel_out_the_new_one_is_kept(dtype: torch.dtype) -> None:
    bank = EmbeddingBank(2, 2, momentum=0.5, dtype=dtype)
    one = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    bank.record(torch.arange(2), one, one)
    bank.record(torch.arange(2), -one, one)
    assert bank.u.tolist() == (-one).tolist()
    torch.testing.assert_close(bank.v.float(), normalize(one, dim=1), rtol=0, atol=1e-3)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("length", [1e-30, 1e25])
def test_rows_whose_squares_leave_float32_spoil_nothing(length: float, momentum: float) -> None:
    bank = EmbeddingBank(3, DIM, momentum=momentum)
    u, v = pairs(3)
    bank.record(torch.arange(3), u * torch.tensor([[1], [length], [1]]), v)
    for seed in (1, 2):
        bank.record(torch.arange(3), *pairs(3, seed=seed))
    torch.testing.assert_close(bank.u.norm(dim=1), torch.ones(3))
    assert -1 <= bank.agreement <= 1


@pytest.mark.parametrize("momentum", [-0.1, 1.0, torch.nan])
def test_no_share_is_no_momentum(momentum: float) -> None:
    with pytest.raises(ValueError, match=r"^momentum must be at least 0 and below 1; got "):
        EmbeddingBank(4, momentum=momentum)


def test_record_takes_any_precision_and_keeps_no_graph() -> None:
    bank = EmbeddingBank(4, DIM)
    u, v = pairs(4)
    bank.record(torch.arange(4, dtype=torch.int32), u.bfloat16().requires_grad_(), v.double().requires_grad_())
    assert bank.u.dtype == bank.v.dtype == torch.float32
    assert not bank.u.requires_grad
    torch.testing.assert_close(bank.u, u.bfloat16().float())
    torch.testing.assert_close(bank.v, v)


def test_of_rows_of_one_sample_the_last_is_kept_on_both_sides() -> None:
    """As a loader that draws with replacement gives them; written by many threads, each side could keep another row."""
    index = torch.randint(0, 50, (4096,), generator=torch.Generator().manual_seed(0))
    u, v = pairs(4096, dim=64)
    bank = EmbeddingBank(50, 64)
    bank.record(index, u, v)
    last = [max(row for row, sample in enumerate(index.tolist()) if sample == one) for one in range(50)]
    assert torch.equal(bank.u, u[last])
    assert torch.equal(bank.v, v[last])


def test_of_rows_of_one_sample_the_last_good_one_is_kept() -> None:
    bank = EmbeddingBank(3, 2)
    u = torch.tensor([[1.0, 2.0], [3.0, 4.0], [torch.nan, 1.0], [torch.nan, 1.0]])
    with pytest.warns(RuntimeWarning, match="2 embeddings"):
        bank.record(torch.tensor([1, 1, 1, 2]), u, torch.ones(4, 2))
    assert bank.u[1].tolist() == [3, 4]
    assert bank.seen.tolist() == [False, True, False]


def test_a_record_is_a_copy() -> None:
    bank = EmbeddingBank(4, DIM)
    u, v = pairs(4)
    bank.record(torch.arange(4), u, v)
    kept = u.clone()
    u.zero_()
    torch.testing.assert_close(bank.u, kept)


def test_float16_takes_four_bytes_for_a_number_of_the_pair() -> None:
    bank = EmbeddingBank(100, 32, dtype=torch.float16)
    assert bank.nbytes == 4 * 100 * 32 == bank.u.untyped_storage().nbytes()
    u, v = pairs(100, dim=32)
    bank.record(torch.arange(100), u, v)
    torch.testing.assert_close(bank.u, u.half())
    assert EmbeddingBank(100, 32).nbytes == 8 * 100 * 32


def test_an_empty_record_changes_nothing_but_the_clock() -> None:
    bank = filled(4)
    before = bank.u.clone()
    bank.record(torch.empty(0, dtype=torch.long), torch.empty(0, DIM), torch.empty(0, DIM))
    assert torch.equal(bank.u, before)
    assert bank.age.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("side", ["u", "v"])
def test_a_diverged_model_leaves_the_last_good_rows_and_is_told_once(bad: float, side: str) -> None:
    bank = filled(5)
    before = bank.u.clone(), bank.v.clone()
    new = dict(zip("uv", pairs(5, seed=1), strict=True))
    new[side][2, 1] = bad
    with pytest.warns(RuntimeWarning, match="1 embeddings were NaN, infinite in torch.float32, or zero") as told:
        bank.record(torch.arange(5), new["u"], new["v"])
    assert told[0].filename == __file__
    assert "the bank keeps the last good ones (said once)" in str(told[0].message)
    assert torch.equal(bank.u[2], before[0][2])
    assert torch.equal(bank.v[2], before[1][2])
    assert torch.equal(bank.u[[0, 1, 3, 4]], new["u"][[0, 1, 3, 4]])
    assert bank.age.tolist() == [0, 0, 1, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bank.record(torch.arange(5), new["u"], new["v"])


def test_zero_rows_are_refused() -> None:
    bank = EmbeddingBank(3, 2)
    with pytest.warns(RuntimeWarning, match="2 embeddings"):
        bank.record(torch.arange(3), torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]), torch.ones(3, 2))
    assert bank.seen.tolist() == [False, True, False]


def test_too_large_for_float16_is_refused() -> None:
    bank = EmbeddingBank(2, 2, dtype=torch.float16)
    with pytest.warns(RuntimeWarning, match=r"infinite in torch\.float16"):
        bank.record(torch.arange(2), torch.tensor([[1e6, 0.0], [1.0, 0.0]]), torch.ones(2, 2))
    assert bank.seen.tolist() == [False, True]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (torch.tensor([0, 5]), "index must lie in 0 to 4; got 5"),
        (torch.tensor([-1, 4]), "index must lie in 0 to 4; got -1"),
        (torch.tensor([[0, 1]]), r"index must have one dimension; got shape \(1, 2\)"),
    ],
)
def test_bad_index(index: Tensor, message: str) -> None:
    bank = filled(5)
    before = bank.u.clone()
    with pytest.raises(ValueError, match=rf"^{message}$"):
        bank.record(index, torch.ones(2, DIM), torch.ones(2, DIM))
    assert torch.equal(bank.u, before)
    assert bank.clock == 1


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 1], "index must be a torch tensor; got list"),
        (torch.tensor([0.0, 1.0]), "index must hold integers; got torch.float32"),
        (torch.tensor([True, False]), "index must hold integers; got torch.bool"),
    ],
)
def test_index_of_a_wrong_type(index: Tensor, message: str) -> None:
    with pytest.raises(TypeError, match=rf"^{message}$"):
        filled(5).record(index, torch.ones(2, DIM), torch.ones(2, DIM))


@pytest.mark.parametrize("shape", [(2, DIM + 1), (3, DIM), (2, DIM, 1), (DIM,)])
@pytest.mark.parametrize("side", ["u", "v"])
def test_rows_of_a_wrong_shape(shape: tuple[int, ...], side: str) -> None:
    rows = {"u": torch.ones(2, DIM), "v": torch.ones(2, DIM)} | {side: torch.ones(shape)}
    with pytest.raises(ValueError) as told:  # noqa: PT011 - the text is compared below
        filled(5).record(torch.tensor([0, 1]), rows["u"], rows["v"])
    assert str(told.value) == f"{side} must have shape (2, 6), a row of the bank's width for each index; got {shape}"


def test_rows_of_a_wrong_type() -> None:
    index, rows = torch.tensor([0, 1]), torch.ones(2, DIM)
    with pytest.raises(TypeError, match=r"^u must be a torch tensor; got list$"):
        filled(5).record(index, [[1.0] * DIM] * 2, rows)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^v must have a floating dtype; got torch.int64$"):
        filled(5).record(index, rows, rows.long())


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match=r"^n must be at least 2; got 1$"):
        EmbeddingBank(1, 3)
    with pytest.raises(ValueError, match=r"^dim must be at least 1; got 0$"):
        EmbeddingBank(3, 0)
    with pytest.raises(ValueError, match=r"^dtype must be torch.float32 or torch.float16; got torch.float64$"):
        EmbeddingBank(3, 3, dtype=torch.float64)


class TwoTowers(nn.Module):
    """Two towers with all that a pass in training mode would change."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(DIM, DIM), nn.BatchNorm1d(DIM), nn.Dropout(0.5))
        self.second = nn.Linear(DIM, DIM).eval()

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.first(x), self.second(y)


def test_fill_is_a_pass_in_evaluation_mode_without_gradient() -> None:
    torch.manual_seed(0)
    model = TwoTowers()
    bank = EmbeddingBank(20, DIM)
    averages = copy.deepcopy(model.first[1].state_dict())
    told: list[int] = []
    bank.fill(model, DataLoader(data_set(20), batch_size=8), progress=told.append)
    assert told == [8, 16, 20]
    assert bank.coverage == 1.0
    torch.testing.assert_close(model.first[1].state_dict(), averages)
    assert model.training
    assert model.first[2].training
    assert not model.second.training
    expected = copy.deepcopy(model).eval()(*pairs(20))
    torch.testing.assert_close(bank.u, expected[0].detach())
    torch.testing.assert_close(bank.v, expected[1].detach())


def test_fill_gives_the_mode_back_after_a_failure() -> None:
    model = TwoTowers()
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        EmbeddingBank(4, DIM).fill(model, [(torch.arange(4), (torch.ones(4, DIM + 1), torch.ones(4, DIM)))])
    assert model.training
    assert torch.is_grad_enabled()


def test_fill_with_one_part_and_with_texts() -> None:
    bank = EmbeddingBank(4, 1)

    def measured(texts: list[str]) -> tuple[Tensor, Tensor]:
        lengths = torch.tensor([[float(len(text))] for text in texts])
        return lengths, 2 * lengths

    words: Any = ["a", "bb", "ccc", "dddd"]
    bank.fill(measured, DataLoader(Indexed(words), batch_size=2))
    assert bank.u.flatten().tolist() == [1, 2, 3, 4]
    assert bank.v.flatten().tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (torch.ones(4, DIM), TypeError, r"embed must give a pair of tensors \(u, v\); got Tensor"),
        ((torch.ones(4, DIM), None), TypeError, r"embed must give a pair of tensors \(u, v\); got tuple"),
        (
            (torch.ones(4, 2), torch.ones(4, 3)),
            ValueError,
            r"embed must give u and v of one shape \(b, d\); got \(4, 2\) and \(4, 3\)",
        ),
    ],
)
def test_fill_says_what_a_model_must_give(result: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"^{message}$"):
        EmbeddingBank(4, DIM).fill(lambda x: result, [(torch.arange(4), torch.ones(4, 2))])  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_state_goes_to_disk_and_back(dtype: torch.dtype, tmp_path: Path) -> None:
    bank = EmbeddingBank(6, DIM, dtype=dtype)
    bank.record(torch.tensor([1, 4]), *pairs(2))
    torch.save(bank.state_dict(), tmp_path / "bank.pt")
    other = EmbeddingBank(6, DIM, dtype=dtype)
    other.record(torch.tensor([0]), *pairs(1))
    other.load_state_dict(torch.load(tmp_path / "bank.pt"))
    torch.testing.assert_close(other.state_dict(), bank.state_dict(), rtol=0, atol=0)


def test_state_changes_precision_and_leaves_out_what_does_not_fit() -> None:
    bank = EmbeddingBank(3, 2)
    bank.record(torch.arange(3), torch.tensor([[1.0, 2.0], [1e6, 1.0], [3.0, 4.0]]), torch.ones(3, 2))
    half = EmbeddingBank(3, 2, dtype=torch.float16)
    half.load_state_dict(bank.state_dict())
    assert half.seen.tolist() == [True, False, True]
    assert half.clock == 1


def test_state_of_another_bank() -> None:
    with pytest.raises(ValueError, match=r"^state\['u'\] must have shape \(5, 6\), as in this bank; got \(4, 6\)$"):
        filled(5).load_state_dict(filled(4).state_dict())
    with pytest.raises(ValueError, match=r"^state must be of an EmbeddingBank, with u, v, .*; got \['u'\]$"):
        filled(5).load_state_dict({"u": torch.ones(5, DIM)})
    with pytest.raises(TypeError, match=r"^state must be of an EmbeddingBank, with u, v, .*; got NoneType$"):
        filled(5).load_state_dict(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^state\['clock'\] must be at least 1; got 0$"):
        filled(5).load_state_dict(filled(5).state_dict() | {"clock": 0})  # its records would be of the future


def test_pickle_and_deepcopy_are_independent_copies() -> None:
    bank = filled(5)
    for other in (pickle.loads(pickle.dumps(bank)), copy.deepcopy(bank)):  # noqa: S301
        torch.testing.assert_close(other.state_dict(), bank.state_dict())
        other.record(torch.arange(5), *pairs(5, seed=3))
        assert bank.clock == 1
        assert not torch.equal(other.u, bank.u)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("in_file", [False, True])
def test_a_snapshot_stays_as_it_is(in_file: bool, dtype: torch.dtype, tmp_path: Path) -> None:
    bank = EmbeddingBank(6, DIM, dtype=dtype, path=tmp_path / "bank" if in_file else None)
    bank.record(torch.arange(4), *(side[:4] for side in pairs(6)))
    before = {name: getattr(bank, name).clone() for name in ("u", "v", "recorded_at", "agreement")}
    still = bank.snapshot()
    bank.record(torch.arange(6), *pairs(6, seed=1))
    for name, value in before.items():
        torch.testing.assert_close(getattr(still, name), value, rtol=0, atol=0, check_dtype=not in_file, equal_nan=True)
    assert (still.clock, bank.clock) == (1, 2)
    assert [path.name for path in tmp_path.iterdir()] == (["bank"] if in_file else [])
