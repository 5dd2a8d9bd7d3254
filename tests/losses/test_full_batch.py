import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.losses._reference import pairs
from torch import Tensor

from batchcut import losses
from batchcut.losses import _full_batch
from batchcut.losses.paper import contrastive_loss, full_batch_loss


@pytest.fixture(params=[1, 3, 4, 7, 100], ids="stripes of {}".format)
def _stripes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_full_batch, "FEWEST_ROWS", request.param)
    monkeypatch.setattr(_full_batch, "STRIPE", 0)


def _with_gradients(loss: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return loss, *torch.autograd.grad(3 * loss, inputs)


@pytest.mark.usefixtures("_stripes")
@pytest.mark.parametrize("n", [2, 7, 13])
@pytest.mark.parametrize("temperature", [1.0, 0.05])
def test_value_and_gradient_of_the_plain_loss(n: int, temperature: float) -> None:
    u, v = pairs(n, 5, seed=n)
    tiled = _with_gradients(full_batch_loss(u, v, temperature=temperature), u, v)
    plain = _with_gradients(contrastive_loss(u, v, temperature=temperature), u, v)
    torch.testing.assert_close(tiled, plain, rtol=1e-12, atol=1e-13)


def test_stripes_of_the_usual_size_in_float32() -> None:
    u, v = pairs(701, 16, dtype=torch.float32)  # three stripes, the last of 189 rows
    assert [stripe.start for stripe in _full_batch._stripes(10_000)][:3] == [0, 256, 512]
    tiled = _with_gradients(full_batch_loss(u, v, temperature=0.05), u, v)
    plain = _with_gradients(contrastive_loss(u, v, temperature=0.05), u, v)
    for found, expected in zip(tiled, plain, strict=True):
        assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize(("n", "height"), [(2, 2**20), (1024, 2048), (8192, 256), (50_000, 256)])
def test_height_of_the_stripes(n: int, height: int) -> None:
    first, *_ = _full_batch._stripes(n)
    assert first == slice(0, height)


@pytest.mark.usefixtures("_stripes")
def test_gradient() -> None:
    assert torch.autograd.gradcheck(lambda u, v: full_batch_loss(u, v, temperature=0.5), pairs(5, 3))


@pytest.mark.usefixtures("_stripes")
def test_a_learned_temperature_gets_its_gradient() -> None:
    u, v = (x.detach() for x in pairs(7, 3))
    temperature = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    tiled = _with_gradients(full_batch_loss(u, v, temperature=temperature), temperature)
    plain = _with_gradients(contrastive_loss(u, v, temperature=temperature), temperature)
    torch.testing.assert_close(tiled, plain, rtol=1e-12, atol=1e-13)


@pytest.mark.usefixtures("_stripes")
def test_one_side_can_be_frozen() -> None:
    u, v = pairs(7, 3)
    expected = torch.autograd.grad(contrastive_loss(u, v), v)
    torch.testing.assert_close(torch.autograd.grad(full_batch_loss(u.detach(), v), v), expected)


@pytest.mark.usefixtures("_stripes")
def test_no_overflow_at_low_temperature() -> None:
    u, v = pairs(13, 4, dtype=torch.float32)
    tiled = _with_gradients(full_batch_loss(u, v, temperature=1e-3), u, v)
    plain = _with_gradients(contrastive_loss(u, v, temperature=1e-3), u, v)
    torch.testing.assert_close(tiled, plain, rtol=1e-4, atol=1e-2)


@pytest.mark.usefixtures("_stripes")
def test_a_perfect_match_at_low_temperature_costs_nothing() -> None:
    """Long rows, whose inner products depend on the order of summation in their last digits."""
    u = 30 * torch.nn.functional.normalize(pairs(8, 100, dtype=torch.float32)[0].detach(), dim=1)
    assert full_batch_loss(u, u, temperature=1e-4).item() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    u, v = pairs(9, 8, dtype=dtype)
    tiled = _with_gradients(full_batch_loss(u, v, temperature=0.05), u, v)
    plain = _with_gradients(contrastive_loss(u, v, temperature=0.05), u, v)
    assert tiled[0].dtype == torch.float32
    torch.testing.assert_close(tiled, plain)


def test_autocast_does_not_lower_the_precision() -> None:
    u, v = pairs(40, 8, dtype=torch.float32)
    expected = _with_gradients(full_batch_loss(u, v, temperature=0.05), u, v)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = _with_gradients(full_batch_loss(u, v, temperature=0.05), u, v)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_second_derivative_is_an_error_not_a_zero() -> None:
    """With what stands before the function, such as a normalization, torch's own check would be silent."""
    u, v = pairs(4, 3)
    for loss in (full_batch_loss, losses.full_batch_loss):
        with pytest.raises(RuntimeError, match="full_batch_loss cannot be differentiated twice; contrastive_loss can"):
            torch.autograd.grad(3 * loss(u, v).square(), u, create_graph=True)


def test_the_inputs_stay_as_they_are() -> None:
    u, v = pairs(9, 4)
    before = u.clone(), v.clone()
    full_batch_loss(u, v).backward()
    assert torch.equal(u, before[0])
    assert torch.equal(v, before[1])


@given(st.integers(2, 12), st.integers(0, 2**20))
def test_order_and_side_do_not_matter(n: int, seed: int) -> None:
    u, v = pairs(n, 4, seed=seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(full_batch_loss(v[order], u[order]), full_batch_loss(u, v), rtol=1e-12, atol=1e-13)
