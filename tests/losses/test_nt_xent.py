import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.losses._reference import pairs, slow_nt_xent

from batchcut.losses import nt_xent


@pytest.mark.parametrize(("n", "d"), [(2, 2), (5, 3), (12, 4)])
@pytest.mark.parametrize("temperature", [0.1, 0.5, 2])
def test_equals_the_slow_version(n: int, d: int, temperature: float) -> None:
    u, v = pairs(n, d, seed=n, unit=False)
    expected = slow_nt_xent(u.tolist(), v.tolist(), temperature)
    assert nt_xent(u, v, temperature=temperature).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_orthonormal_pairs(n: int, temperature: float) -> None:
    """The partner is at 1, the 2n - 2 views of other samples at 0."""
    eye = torch.eye(n, dtype=torch.float64)
    e = math.exp(1 / temperature)
    assert nt_xent(eye, 7 * eye, temperature=temperature).item() == pytest.approx(
        math.log((e + 2 * n - 2) / e), rel=1e-13
    )


@pytest.mark.parametrize("n", [2, 5])
def test_collapsed_pairs(n: int) -> None:
    same = torch.ones(n, 3, dtype=torch.float64)
    assert nt_xent(same, same).item() == pytest.approx(math.log(2 * n - 1), rel=1e-13)


def test_opposite_views() -> None:
    """u = -v = e_i: the partner at -1, the rest at 0."""
    eye = torch.eye(3, dtype=torch.float64)
    assert nt_xent(eye, -eye, temperature=1.0).item() == pytest.approx(math.log((math.exp(-1) + 4) * math.e), rel=1e-13)


def test_gradient() -> None:
    assert torch.autograd.gradcheck(nt_xent, pairs(4, 3))


def test_a_learned_temperature_gets_its_gradient() -> None:
    u, v = (x.detach() for x in pairs(4, 3))
    temperature = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: nt_xent(u, v, temperature=t), temperature)


def test_no_overflow_at_low_temperature() -> None:
    u, v = pairs(6, 3, dtype=torch.float32)
    loss = nt_xent(u, v, temperature=1e-3)
    gradients = torch.autograd.grad(loss, (u, v))
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1, 10_000])
def test_half_precision_is_exact_from_the_input_on(dtype: torch.dtype, scale: float) -> None:
    """Lengths of 80,000, which float16 does not hold, are no problem."""
    u, v = (scale * x.detach() for x in pairs(6, 64, dtype=dtype, unit=False))
    loss = nt_xent(u, v, temperature=0.05)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(nt_xent(u.double(), v.double(), temperature=0.05).item(), abs=2e-6)


@given(st.integers(2, 10), st.integers(0, 2**20), st.floats(1e-3, 1e3))
def test_order_side_and_length_do_not_matter(n: int, seed: int, scale: float) -> None:
    u, v = pairs(n, 4, seed=seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(nt_xent(scale * v[order], u[order]), nt_xent(u, v), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("length", [1e-30, 1e-20, 1e20, 1e30])
def test_rows_of_any_length(length: float) -> None:
    u, v = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(nt_xent(u * length, v * length), nt_xent(u, v))
