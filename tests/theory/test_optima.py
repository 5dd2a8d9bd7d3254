import math
import re

import pytest
import torch

from batchcut.losses import contrastive_loss, minibatch_loss
from batchcut.theory import cross_polytope, optimal_loss, simplex_etf

CASES = [(2, 1), (3, 2), (4, 7), (6, 5), (4, 2), (6, 3), (10, 5)]


@pytest.mark.parametrize("temperature", [1.0, 0.1, 3.0])
@pytest.mark.parametrize(("n", "d"), CASES)
def test_the_closed_form_is_the_loss_at_the_optimum(n: int, d: int, temperature: float) -> None:
    u = simplex_etf(n, d) if n <= d + 1 else cross_polytope(n, d)
    wanted = contrastive_loss(u, u, temperature=temperature)
    assert optimal_loss(n, d, temperature=temperature) == pytest.approx(float(wanted), abs=1e-13)
    for size in range(2, n + 1):
        wanted = minibatch_loss(u, u, "all", batch_size=size, temperature=temperature)
        found = optimal_loss(n, d, batch_size=size, temperature=temperature)
        assert found == pytest.approx(float(wanted), abs=1e-13)


@pytest.mark.parametrize(("n", "d"), CASES)
def test_a_batch_of_all_samples_is_the_full_batch(n: int, d: int) -> None:
    assert optimal_loss(n, d, batch_size=n) == pytest.approx(optimal_loss(n, d), abs=1e-14)


def test_the_toy_example_of_the_paper() -> None:
    assert optimal_loss(4, 2) == pytest.approx(1.2530, abs=1e-4)


def test_two_pairs_on_a_line() -> None:
    assert optimal_loss(2, 1) == pytest.approx(2 * math.log1p(math.exp(-2)))


@pytest.mark.parametrize(("n", "d"), CASES)
def test_no_random_point_is_lower(n: int, d: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        u = torch.nn.functional.normalize(torch.randn(n, d, dtype=torch.float64, generator=generator), dim=1)
        assert float(contrastive_loss(u, u)) >= optimal_loss(n, d) - 1e-12


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n": 5, "d": 3}, "n must be at most d + 1 = 4 or equal to 2 d = 6, the cases with a proof; got 5"),
        ({"n": 1, "d": 3}, "n must be at least 2; got 1"),
        ({"n": 3, "d": 0}, "d must be at least 1; got 0"),
        ({"n": 4, "d": 3, "batch_size": 1}, "batch_size must be at least 2; got 1"),
        ({"n": 4, "d": 3, "batch_size": 5}, "batch_size must be at most 4; got 5"),
        ({"n": 4, "d": 3, "temperature": 0.0}, "temperature must be finite and above 0; got 0.0"),
        ({"n": 4, "d": 3, "temperature": -1}, "temperature must be finite and above 0; got -1"),
        ({"n": 4, "d": 3, "temperature": math.nan}, "temperature must be finite and above 0; got nan"),
    ],
)
def test_bad_values(arguments: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        optimal_loss(**arguments)


def test_bad_types() -> None:
    with pytest.raises(TypeError, match=r"^n must be an integer; got float$"):
        optimal_loss(4.0, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^batch_size must be an integer; got str$"):
        optimal_loss(4, 3, batch_size="2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^temperature must be a number; got NoneType$"):
        optimal_loss(4, 3, temperature=None)  # type: ignore[arg-type]
