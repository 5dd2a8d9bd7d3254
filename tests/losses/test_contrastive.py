import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.losses._reference import pairs, slow_contrastive_loss
from torch import Tensor

from batchcut.losses.paper import contrastive_loss


@pytest.mark.parametrize(("n", "d"), [(2, 1), (3, 5), (8, 4), (17, 3)])
@pytest.mark.parametrize("temperature", [1.0, 0.1, 3])
def test_equals_the_definition(n: int, d: int, temperature: float) -> None:
    u, v = pairs(n, d, seed=n)
    expected = slow_contrastive_loss(u.tolist(), v.tolist(), temperature)
    assert contrastive_loss(u, v, temperature=temperature).item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_rows_are_used_as_they_are() -> None:
    u, v = pairs(5, 3, unit=False)
    expected = slow_contrastive_loss(u.tolist(), v.tolist())
    assert contrastive_loss(u, v).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_gradient(temperature: float) -> None:
    assert torch.autograd.gradcheck(lambda u, v: contrastive_loss(u, v, temperature=temperature), pairs(4, 3))


def test_second_derivative() -> None:
    assert torch.autograd.gradgradcheck(contrastive_loss, pairs(3, 2))


@pytest.mark.parametrize("n", [2, 3, 16])
def test_orthonormal_pairs(n: int) -> None:
    """`prop:prop1`: with u = v orthonormal every row is e among n - 1 ones."""
    eye = torch.eye(n, dtype=torch.float64)
    assert contrastive_loss(eye, eye).item() == pytest.approx(2 * math.log((math.e + n - 1) / math.e), rel=1e-14)


@pytest.mark.parametrize("n", [2, 3, 16])
def test_collapsed_pairs(n: int) -> None:
    """`prop:prop1`: where all embeddings agree each of n is as likely."""
    same = torch.ones(n, 1, dtype=torch.float64)
    assert contrastive_loss(same, same).item() == pytest.approx(2 * math.log(n), rel=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_overflow_at_low_temperature(dtype: torch.dtype) -> None:
    u, v = torch.eye(4, dtype=dtype).requires_grad_(), (-torch.eye(4, dtype=dtype)).requires_grad_()
    loss = contrastive_loss(u, v, temperature=1e-3)
    # Positives at -1000, negatives at 0: log(3 + e^-1000) + 1000, twice.
    assert loss.item() == pytest.approx(2 * (math.log(3) + 1000), rel=1e-6)
    loss.backward()
    assert u.grad is not None
    assert torch.isfinite(u.grad).all()


def test_a_perfect_match_at_low_temperature_costs_nothing() -> None:
    eye = torch.eye(4)
    assert contrastive_loss(eye, eye, temperature=1e-3).item() == 0


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_learned_temperature_gets_its_gradient(shape: tuple[int, ...]) -> None:
    u, v = (x.detach() for x in pairs(5, 3))
    temperature = torch.full(shape, 0.3, dtype=torch.float64, requires_grad=True)
    contrastive_loss(u, v, temperature=temperature).backward()
    step = 1e-6
    slope = contrastive_loss(u, v, temperature=0.3 + step) - contrastive_loss(u, v, temperature=0.3 - step)
    assert temperature.grad is not None
    assert temperature.grad.item() == pytest.approx(slope.item() / (2 * step), rel=1e-6)


def test_clips_loss_is_half() -> None:
    u, v = pairs(6, 4)
    logits, labels = u @ v.T / 0.07, torch.arange(6)
    cross_entropy = torch.nn.functional.cross_entropy
    clip = (cross_entropy(logits, labels) + cross_entropy(logits.T, labels)) / 2
    assert contrastive_loss(u, v, temperature=0.07).item() == pytest.approx(2 * clip.item(), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_exact_from_the_input_on(dtype: torch.dtype) -> None:
    u, v = (x.detach() for x in pairs(6, 8, dtype=dtype))
    loss = contrastive_loss(u, v, temperature=0.01)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(contrastive_loss(u.double(), v.double(), temperature=0.01).item(), rel=1e-5)


def test_half_precision_does_not_overflow() -> None:
    u = (300 * torch.eye(3)).half()  # inner products of 90,000, above the 65,504 that float16 holds
    assert contrastive_loss(u, u).item() == 0


def test_half_precision_gets_gradients_of_its_dtype() -> None:
    u, v = pairs(4, 3, dtype=torch.bfloat16)
    contrastive_loss(u, v).backward()
    assert u.grad is not None
    assert u.grad.dtype == torch.bfloat16


def test_autocast_does_not_lower_the_precision() -> None:
    u, v = pairs(16, 8, dtype=torch.float32)
    expected = contrastive_loss(u, v, temperature=0.05)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(contrastive_loss(u, v, temperature=0.05), expected)


def test_float64_stays_float64() -> None:
    assert contrastive_loss(*pairs(3, 2)).dtype == torch.float64


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 2**20))
def test_the_order_of_the_samples_does_not_matter(n: int, d: int, seed: int) -> None:
    u, v = pairs(n, d, seed=seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    assert_close(contrastive_loss(u[order], v[order], temperature=0.3), contrastive_loss(u, v, temperature=0.3))


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 2**20))
def test_the_sides_can_be_swapped(n: int, d: int, seed: int) -> None:
    u, v = pairs(n, d, seed=seed)
    assert_close(contrastive_loss(v, u, temperature=0.3), contrastive_loss(u, v, temperature=0.3))


def assert_close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
