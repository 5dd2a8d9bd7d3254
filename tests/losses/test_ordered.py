import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.losses._reference import all_batches, pairs, slow_loss_of_batch

from batchcut.losses import _ordered, order_weights
from batchcut.losses.paper import minibatch_loss, ordered_loss

DRAWS = st.integers(1, 40).flatmap(
    lambda total: st.tuples(st.just(total), st.integers(1, total), st.integers(1, total))
)


def _exact(total: int, k: int, q: int, rank: int) -> Fraction:
    """γ of `eq:osgd-loss`, in rational numbers."""
    taken = sum(math.comb(rank - 1, above) * math.comb(total - rank, k - above - 1) for above in range(min(q, k)))
    return Fraction(taken, math.comb(total, k))


@given(DRAWS)
def test_weights_equal_the_formula_and_sum_to_q(draw: tuple[int, int, int]) -> None:
    total, k, q = draw
    assume(q <= k)
    weights = order_weights(total, k, q)
    assert weights.dtype == torch.float64
    assert weights.tolist() == pytest.approx([float(_exact(total, k, q, j + 1)) for j in range(total)], rel=1e-12)
    assert weights.sum().item() == pytest.approx(q, rel=1e-12)


@given(DRAWS)
def test_a_higher_loss_never_weighs_less(draw: tuple[int, int, int]) -> None:
    total, k, q = draw
    assume(q <= k)
    assert bool((order_weights(total, k, q).diff() <= 1e-13).all())


@pytest.mark.parametrize(("total", "k", "q"), [(6, 3, 2), (7, 4, 1), (5, 5, 2), (6, 4, 4)])
def test_weights_are_the_frequencies_over_all_draws(total: int, k: int, q: int) -> None:
    draws = list(itertools.combinations(range(total), k))
    frequencies = [sum(rank in draw[:q] for draw in draws) / len(draws) for rank in range(total)]
    assert order_weights(total, k, q).tolist() == pytest.approx(frequencies, rel=1e-12)


@pytest.mark.parametrize("ranks", [[1, 2, 10**6], [10**112, 3 * 10**112, 6 * 10**114], [math.comb(50_000, 32) // 2]])
def test_a_total_like_c_50000_32(ranks: list[int]) -> None:
    total, k, q = math.comb(50_000, 32), 60, 7
    weights = order_weights(total, k, q, ranks=ranks)
    assert weights.tolist() == pytest.approx([float(_exact(total, k, q, rank)) for rank in ranks], rel=1e-11)
    assert bool((weights > 0).all())


def test_the_setting_of_the_paper_at_a_large_total() -> None:
    """The best rank is taken whenever it is drawn, the worst never; among so many, draws are independent."""
    total, k, q = math.comb(50_000, 32), 1500, 150
    fewer_than_q_above = sum(
        math.comb(k - 1, above) * Fraction(1, 10) ** above * Fraction(9, 10) ** (k - 1 - above) for above in range(q)
    )
    weights = order_weights(total, k, q, ranks=[1, total // 10, total])
    assert weights.tolist() == pytest.approx([k / total, k / total * float(fewer_than_q_above), 0.0], rel=1e-11)


def test_ranks_that_only_exact_integers_tell_apart() -> None:
    """10^20 - 3 and 10^20 are one float."""
    total = 10**20
    weights = order_weights(total, 3, 1, ranks=[total - 2, total - 1])
    assert weights.tolist() == [pytest.approx(float(_exact(total, 3, 1, total - 2)), rel=1e-12), 0.0]


def test_chosen_ranks_are_those_of_the_whole_list() -> None:
    chosen = order_weights(30, 8, 3, ranks=[4, 1, 30])
    torch.testing.assert_close(chosen, order_weights(30, 8, 3)[[3, 0, 29]], rtol=1e-13, atol=0)


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = order_weights(30, 8, 3, ranks=range(1, 31))
    monkeypatch.setattr(_ordered, "CHUNK", 20)
    assert torch.equal(order_weights(30, 8, 3, ranks=range(1, 31)), expected)


@pytest.mark.parametrize(("k", "q"), [(1, 1), (3, 1), (3, 2), (4, 4), (6, 3)])
def test_the_loss_is_the_expectation_of_osgd(k: int, q: int) -> None:
    u, v = pairs(4, 3)
    losses = [slow_loss_of_batch(u, v, batch, 0.3) for batch in all_batches(4, 2)]
    steps = [sum(sorted(draw, reverse=True)[:q]) / q for draw in itertools.combinations(losses, k)]
    found = ordered_loss(u, v, batch_size=2, k=k, q=q, temperature=0.3)
    assert found.item() == pytest.approx(sum(steps) / len(steps), rel=1e-12)


def test_k_equal_to_q_is_the_mean() -> None:
    u, v = pairs(6, 3)
    mean = minibatch_loss(u, v, "all", batch_size=3)
    assert ordered_loss(u, v, batch_size=3, k=5, q=5).item() == pytest.approx(mean.item(), rel=1e-12)


def test_the_top_of_all_is_the_highest_loss() -> None:
    u, v = pairs(6, 3)
    highest = minibatch_loss(u, v, "all", batch_size=3, reduction="none").max()
    assert ordered_loss(u, v, batch_size=3, k=20, q=1).item() == pytest.approx(highest.item(), rel=1e-12)


def test_gradient() -> None:
    assert torch.autograd.gradcheck(lambda u, v: ordered_loss(u, v, batch_size=2, k=4, q=2), pairs(4, 3))


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ((0, 1, 1), ValueError, "total must be at least 1; got 0"),
        ((10, 11, 1), ValueError, "k must be at most 10; got 11"),
        ((10, 0, 1), ValueError, "k must be at least 1; got 0"),
        ((10, 3, 4), ValueError, "q must be at most 3; got 4"),
        ((10, 3, 0), ValueError, "q must be at least 1; got 0"),
        ((10, 3.0, 1), TypeError, "k must be an integer; got float"),
        (
            (10**9, 3, 1),
            ValueError,
            "ranks must be given where total is above 100,000,000; got none for total = 1,000,000,000",
        ),
        ((10**5000, 3, 1), ValueError, "total must be at most 1e300, as the weights are float64; got about 1.0e5000"),
    ],
)
def test_bad_draws(arguments: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{text}$"):
        order_weights(*arguments)


@pytest.mark.parametrize(
    ("rank", "kind", "text"),
    [
        (0, ValueError, "ranks must be at least 1; got 0"),
        (11, ValueError, "ranks must be at most 10; got 11"),
        (1.0, TypeError, "ranks must be an integer; got float"),
    ],
)
def test_bad_ranks(rank: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{text}$"):
        order_weights(10, 3, 2, ranks=[1, rank])


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"batch_size": 1, "k": 1, "q": 1}, "batch_size must be at least 2; got 1"),
        ({"batch_size": 5, "k": 1, "q": 1}, "batch_size must be at most 4; got 5"),
        ({"batch_size": 2, "k": 7, "q": 1}, "k must be at most 6; got 7"),
        ({"batch_size": 2, "k": 2, "q": 3}, "q must be at most 2; got 3"),
    ],
)
def test_bad_settings_of_the_loss(settings: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        ordered_loss(torch.eye(4), torch.eye(4), **settings)


@pytest.mark.parametrize(("total", "k", "q"), [(1, 1, 1), (7, 7, 3), (30, 29, 28), (40, 39, 1), (500, 400, 40)])
def test_all_weights_equal_those_of_given_ranks(total: int, k: int, q: int) -> None:
    weights = order_weights(total, k, q)
    torch.testing.assert_close(weights, order_weights(total, k, q, ranks=range(1, total + 1)), rtol=1e-12, atol=1e-15)
