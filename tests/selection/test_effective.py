import tracemalloc
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

import batchcut as bc
from batchcut.selection import EffectiveSize, effective_batch_size, gradient_table
from batchcut.selection._effective import batch_sizes, paired, rising, size_at

MakePairs = Callable[..., tuple[Any, Any]]
TAU = 0.2


def layer_gradient(u: Any, v: Any, batches: list[Any]) -> torch.Tensor:
    """By autograd: the gradient of an affine layer on each side, candidates held fixed; each sample counts once."""
    sides = [torch.tensor(u, dtype=torch.float64), torch.tensor(v, dtype=torch.float64)]
    times = np.bincount(np.concatenate(batches), minlength=len(u))
    dim = u.shape[1]
    parts = []
    for rows, others in (sides, sides[::-1]):
        weight, bias = torch.eye(dim).double().requires_grad_(), torch.zeros(dim).double().requires_grad_()
        total = torch.zeros(())
        for batch in batches:
            anchors = normalize(rows[batch] @ weight.T + bias, dim=1)
            losses = -(anchors @ others[batch].T / TAU).log_softmax(dim=1).diagonal()
            total = total + (losses / torch.tensor(times[batch])).sum()
        total.backward()
        assert weight.grad is not None
        assert bias.grad is not None
        parts += [weight.grad.flatten(), bias.grad]
    return torch.cat(parts)


def kept_by_autograd(u: Any, v: Any, batches: list[Any]) -> float:
    whole = layer_gradient(u, v, [np.arange(len(u))])
    return float(layer_gradient(u, v, batches) @ whole / whole.square().sum())


def all_batches(count: int, size: int) -> Any:
    return np.array(list(combinations(range(count), size)))


def exact_size(u: Any, v: Any, batches: Any) -> float:
    """By enumeration of all batches of every size."""
    table, count = gradient_table(u, v, temperature=TAU), len(u)
    curve = [table.kept(all_batches(count, size)) for size in range(1, count + 1)]
    return size_at(table.kept(batches), rising(np.array(curve)), np.arange(1, count + 1))


@pytest.mark.parametrize("batch_size", [2, 4, 12])
def test_what_is_kept_is_that_of_autograd(make_pairs: MakePairs, batch_size: int) -> None:
    u, v = make_pairs(12, 5)
    batches = np.random.default_rng(1).permutation(12).reshape(-1, batch_size)
    expected = kept_by_autograd(u, v, list(batches))
    assert gradient_table(u, v, temperature=TAU).kept(batches) == pytest.approx(expected, rel=1e-4)
    assert effective_batch_size(u, v, batches, temperature=TAU).kept == pytest.approx(expected, rel=1e-4)


def test_a_sample_in_several_batches_counts_once_by_their_mean(make_pairs: MakePairs) -> None:
    u, v = make_pairs(6, 4)
    batches = np.array([[0, 1, 2], [3, 4, 5], [0, 4, 5], [0, 2, 3]])
    expected = kept_by_autograd(u, v, list(batches))
    assert gradient_table(u, v, temperature=TAU).kept(batches) == pytest.approx(expected, rel=1e-4)
    assert effective_batch_size(u, v, batches, temperature=TAU).kept == pytest.approx(expected, rel=1e-4)


def test_samples_in_no_batch_are_candidates_and_no_anchors(make_pairs: MakePairs) -> None:
    u, v = make_pairs(7, 4)
    found = effective_batch_size(u, v, np.array([[0, 1, 2], [3, 4, 5]]), temperature=TAU)
    assert found.anchors == 6
    whole, parts = [], []
    for rows, others in ((u, v), (v, u)):
        for i in range(6):
            batch = [0, 1, 2] if i < 3 else [3, 4, 5]
            row = np.append(rows[i], 1)
            parts.append(np.outer(_gradient(rows[i], others, i, batch), row))
            whole.append(np.outer(_gradient(rows[i], others, i, range(7)), row))
    full, planned = (np.array(m).reshape(2, 6, 4, 5).sum(axis=1) for m in (whole, parts))
    assert found.kept == pytest.approx((full * planned).sum() / (full**2).sum(), rel=1e-4)


def _gradient(anchor: Any, others: Any, own: int, batch: Any) -> Any:
    masses = np.exp(others[list(batch)] @ anchor / TAU)
    gradient = (masses @ others[list(batch)] / masses.sum() - others[own]) / TAU
    return gradient - (gradient @ anchor) * anchor


def test_a_short_batch_counts_without_its_empty_places(make_pairs: MakePairs) -> None:
    u, v = make_pairs(8, 4)
    padded = np.array([[0, 1, 2], [3, 4, 5], [6, 7, -1]])
    expected = kept_by_autograd(u, v, [row[row >= 0] for row in padded])
    assert effective_batch_size(u, v, padded, temperature=TAU).kept == pytest.approx(expected, rel=1e-4)
    assert gradient_table(u, v, temperature=TAU).kept(padded) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_all_batches_of_a_size_have_that_size(make_pairs: MakePairs, seed: int) -> None:
    u, v = make_pairs(7, 4, seed=seed)
    for size in range(1, 8):
        assert exact_size(u, v, all_batches(7, size)) == pytest.approx(size)


def test_random_batches_are_estimated_without_bias(make_pairs: MakePairs) -> None:
    """Mean over seeds of the curve of random batches against enumeration, each size."""
    u, v = make_pairs(9, 4, clusters=2)
    table, sizes = gradient_table(u, v, temperature=TAU), batch_sizes(9)
    assert list(sizes) == [1, 2, 3, 4, 5, 7, 9]
    exact = [table.kept(all_batches(9, size)) for size in sizes]
    for size, expected in zip(sizes, exact, strict=True):
        # A plan of the batches of one size, all anchors: what random batches of that size keep is what it keeps.
        found = [effective_batch_size(u, v, all_batches(9, size), temperature=TAU, seed=s) for s in range(40)]
        assert found[0].kept == pytest.approx(expected, rel=1e-3, abs=1e-5)
        assert np.log([f.size for f in found]).mean() == pytest.approx(np.log(size), abs=0.08)


@pytest.mark.parametrize("tau", [0.003, 0.01, 0.1, 10.0])
def test_random_batches_of_two_are_exact_at_any_temperature(tau: float) -> None:
    """Windows of one negative are all there are, however small its mass is beside those outside of the batch."""
    for seed in range(12):
        u, v = np.random.default_rng(seed).standard_normal((2, 3, 4))
        found = effective_batch_size(u, v, all_batches(3, 2), temperature=tau)
        assert found.size == pytest.approx(2, rel=1e-3)


def test_the_full_batch_has_the_size_of_the_set(make_pairs: MakePairs) -> None:
    u, v = make_pairs(300)
    for anchors in (20, None):
        found = effective_batch_size(u, v, np.arange(300)[None], temperature=TAU, anchors=anchors)
        assert found.size == pytest.approx(300, rel=1e-4)
        assert found.kept == pytest.approx(1, abs=1e-6)
        assert found.low == found.high == 300


@settings(max_examples=30, deadline=None)
@given(
    st.integers(3, 40),
    st.integers(2, 8),
    st.sampled_from([0.02, 0.1, 1.0]),
    st.integers(0, 10**6),
)
def test_sizes_lie_between_one_and_all(count: int, size: int, tau: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    u, v = rng.standard_normal((2, count, 3))
    plan = bc.Cut(temperature=tau)(u, v, batch_size=min(size, count), drop_last=False)
    found = effective_batch_size(u, v, plan, temperature=tau, seed=seed)
    assume(not np.isnan(found.size))  # by chance all that is left of three pairs at a low temperature is rounding
    assert 1 <= found.low <= found.size <= found.high <= count
    relabel = rng.permutation(count)
    back = np.argsort(relabel)
    moved = np.where(plan.batches >= 0, back[plan.batches], -1)
    again = effective_batch_size(u[relabel], v[relabel], moved, temperature=tau, seed=seed)
    assert again.kept == pytest.approx(found.kept, rel=1e-3, abs=1e-4)
    assert effective_batch_size(v, u, plan, temperature=tau).kept == pytest.approx(found.kept, rel=1e-3, abs=1e-4)


def test_the_interval_holds_the_size_of_all_anchors(make_pairs: MakePairs) -> None:
    u, v = make_pairs(1500, 6, clusters=12)
    plan = bc.Cut(temperature=TAU)(u, v, batch_size=10)
    whole = effective_batch_size(u, v, plan, temperature=TAU, anchors=1500)
    assert whole.high / whole.low < 1.1
    found = [effective_batch_size(u, v, plan, temperature=TAU, anchors=150, seed=s) for s in range(100)]
    inside = sum(one.low <= whole.size <= one.high for one in found)
    assert inside >= 88
    stated = np.mean([np.log(one.high / one.low) for one in found]) / (2 * 1.96)
    assert stated < 2 * np.log([one.size for one in found]).std()


def test_random_batches_have_their_own_size(make_pairs: MakePairs) -> None:
    u, v = make_pairs(1500, 6, clusters=12)
    for size in (5, 50):
        found = [
            effective_batch_size(
                u, v, bc.Shuffle()(u, v, batch_size=size, seed=s), temperature=TAU, anchors=1500, seed=s
            )
            for s in range(5)
        ]
        assert np.log([one.size for one in found]).mean() == pytest.approx(np.log(size), abs=0.06)


def test_hard_batches_are_worth_more_than_random_ones_where_few_negatives_hold_the_mass(make_pairs: MakePairs) -> None:
    """And less where many do: a softmax at a high temperature looks at the whole set, of which they hold a corner."""
    u, v = make_pairs(600, clusters=20)
    cold, warm = (bc.Cut(temperature=tau)(u, v, batch_size=10) for tau in (0.05, 0.5))
    assert effective_batch_size(u, v, cold, temperature=0.05).low > 50
    assert effective_batch_size(u, v, warm, temperature=0.5).high < 5


def test_it_is_a_function_of_seed_and_epoch_and_not_of_threads(make_pairs: MakePairs) -> None:
    u, v = make_pairs(2000, 5)
    batches = np.arange(2000).reshape(-1, 8)
    found = effective_batch_size(u, v, batches, anchors=100, seed=3)
    assert found == effective_batch_size(u, v, batches, anchors=100, seed=3, threads=1)
    assert found == effective_batch_size(torch.tensor(u), torch.tensor(v), batches, anchors=100, seed=3)
    assert found != effective_batch_size(u, v, batches, anchors=100, seed=4)
    assert found != effective_batch_size(u, v, batches, anchors=100, seed=3, epoch=1)


def test_blocks_and_scores_computed_twice_change_nothing(
    make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    u, v = make_pairs(200)
    batches = np.arange(200).reshape(-1, 8)
    at_once = effective_batch_size(u, v, batches)
    monkeypatch.setattr("batchcut.selection._effective._CELLS_AT_ONCE", 1000)
    monkeypatch.setattr("batchcut.selection._effective._CELLS_KEPT", 0)
    in_blocks = effective_batch_size(u, v, batches)
    assert in_blocks.size == pytest.approx(at_once.size, rel=1e-4)
    assert in_blocks.kept == pytest.approx(at_once.kept, rel=1e-4)


def test_where_there_is_no_gradient_there_is_no_size() -> None:
    same = np.ones((10, 3))
    found = effective_batch_size(same, same, np.arange(10).reshape(2, 5))
    assert np.isnan(found.size)
    assert np.isnan(found.kept)
    assert found.facts == {"size": None, "low": 1, "high": 10, "kept": None, "anchors": 10}
    assert str(found) == "unknown: no full-batch gradient can be told from zero"


@pytest.mark.parametrize("tau", [1.0, 0.3, 0.1, 0.05])
@pytest.mark.parametrize("count", [8, 60, 300])
def test_at_the_best_embeddings_rounding_is_no_gradient(count: int, tau: float) -> None:
    """A simplex is where the loss is least (`thm:NcB-reaches-etf`), so that all that is left is rounding."""
    simplex = np.eye(count) - 1 / count
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((count, count)))[0]
    for rows in (simplex, simplex @ turn):
        for anchors in (4, None):
            batches = np.arange(count).reshape(-1, 4)
            assert np.isnan(effective_batch_size(rows, rows, batches, temperature=tau, anchors=anchors).size)


def test_a_size_is_shown_with_its_interval() -> None:
    assert str(EffectiveSize(size=1234.4, low=999.6, high=1600, kept=0.4, anchors=8)) == "1,234 (1,000 to 1,600)"
    with pytest.raises(ValueError, match=r"low and high must be an interval above 1; got 0\.5 to 3\.0"):
        EffectiveSize(size=2, low=0.5, high=3, kept=0.4, anchors=8)
    with pytest.raises(ValueError, match=r"size must lie in the interval from low to high, 1\.0 to 3\.0; got 4\.0"):
        EffectiveSize(size=4, low=1, high=3, kept=0.4, anchors=8)


def test_anchors_are_fewer_for_large_sets(make_pairs: MakePairs) -> None:
    u, v = make_pairs(40_000, 2)
    assert effective_batch_size(u, v, np.arange(40_000).reshape(-1, 8)).anchors == 128
    assert effective_batch_size(u[:16_384], v[:16_384], np.arange(16_384).reshape(-1, 8)).anchors == 256
    assert effective_batch_size(u[:600], v[:600], np.arange(600).reshape(-1, 8)).anchors == 512


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"batches": np.arange(4)}, r"batches must have shape \(K, B\); got \(4,\)"),
        ({"batches": np.zeros((2, 2))}, "batches must hold integers; got float64"),
        ({"batches": np.array([[0, 9]])}, "batches must hold indices below 4; got 9"),
        ({"batches": np.array([[0, -2]])}, "batches must hold indices below 4; got -2"),
        ({"batches": np.array([[-1, -1]])}, "batches must hold indices below 4; got -1"),
        ({"anchors": 1}, "anchors must be at least 2; got 1"),
        ({"temperature": 0}, "temperature must be finite and above 0; got 0"),
        ({"seed": -1}, "seed must be at least 0; got -1"),
        ({"threads": 0}, "threads must be at least 1; got 0"),
    ],
)
def test_errors_name_the_argument(make_pairs: MakePairs, changed: dict[str, Any], text: str) -> None:
    u, v = make_pairs(4)
    arguments = {"batches": np.array([[0, 1], [2, 3]])} | changed
    with pytest.raises((ValueError, TypeError), match=text):
        effective_batch_size(u, v, **arguments)


@pytest.mark.parametrize(("anchors", "dim"), [(5, 40), (40, 5)])
def test_pairing_is_the_same_by_either_product(anchors: int, dim: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((anchors, dim)).astype(np.float32)
    gradients = rng.standard_normal((anchors, dim))
    slow = [sum((1 + float(a @ b)) * gradient for b, gradient in zip(rows, gradients, strict=True)) for a in rows]
    np.testing.assert_allclose(paired(gradients, rows, anchors), slow, rtol=1e-4, atol=1e-5)


def test_wide_embeddings_take_no_square_of_their_width() -> None:
    tracemalloc.start()
    u = np.random.default_rng(0).standard_normal((12, 8000)).astype(np.float32)
    effective_batch_size(u, u, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]], threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8000 * 8000  # bytes, an eighth of such a matrix
