import pytest
import torch

from batchcut.losses.paper import contrastive_loss, minibatch_loss
from batchcut.theory import all_batches, full_batch, losses_of_batches, over_all_batches, over_batches


@pytest.fixture
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    u, v = torch.randn(2, 7, 3, dtype=torch.float64, generator=generator)
    return u, v


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_full_batch_is_the_contrastive_loss(pair: tuple[torch.Tensor, torch.Tensor], temperature: float) -> None:
    u, v = pair
    wanted = contrastive_loss(u, v, temperature=temperature)
    torch.testing.assert_close(full_batch(temperature)(u @ v.T), wanted, atol=1e-13, rtol=0)


@pytest.mark.parametrize("temperature", [1.0, 0.1])
@pytest.mark.parametrize("size", range(2, 8))
def test_over_batches_is_the_minibatch_loss(
    pair: tuple[torch.Tensor, torch.Tensor], size: int, temperature: float
) -> None:
    u, v = pair
    wanted = minibatch_loss(u, v, "all", batch_size=size, temperature=temperature)
    objective = over_batches(all_batches(7, size), temperature)
    torch.testing.assert_close(objective(u @ v.T), wanted, atol=1e-13, rtol=1e-13)


@pytest.mark.parametrize("temperature", [1.0, 0.1])
@pytest.mark.parametrize("size", range(2, 7))
def test_the_fast_form_is_the_mean_over_all_batches(size: int, temperature: float) -> None:
    generator = torch.Generator().manual_seed(1)
    products = 2 * torch.rand(5, 7, 7, dtype=torch.float64, generator=generator) - 1
    slow = over_batches(all_batches(7, size), temperature)(products)
    fast = over_all_batches(7, size, temperature)(products)
    torch.testing.assert_close(fast, slow, atol=1e-12, rtol=1e-12)


def test_losses_of_batches_one_by_one(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    u, v = pair
    batches = [(0, 1, 2), (4, 6, 5), (2, 0, 6)]
    wanted = torch.stack([contrastive_loss(u[list(b)], v[list(b)]) for b in batches])
    torch.testing.assert_close(losses_of_batches(batches)(u @ v.T), wanted, atol=1e-13, rtol=0)


def test_leading_dimensions_stay(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    u, v = pair
    products = (u @ v.T).expand(2, 3, 7, 7)
    assert full_batch()(products).shape == (2, 3)
    assert over_batches([(0, 1), (2, 3)])(products).shape == (2, 3)
    assert losses_of_batches([(0, 1), (2, 3)])(products).shape == (2, 3, 2)


def test_all_batches_are_all() -> None:
    assert all_batches(3, 2) == [(0, 1), (0, 2), (1, 2)]
    assert len(set(all_batches(8, 3))) == 56
