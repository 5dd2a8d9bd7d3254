"""Two views of images."""

from typing import Literal

import pytest
import torch

from batchcut.training import ViewSettings
from batchcut.training._data import color_maps, crops, normalized, random_views

IMAGES = torch.randint(0, 256, (6, 3, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_views_are_a_function_of_the_numbers_alone(recipe: Literal["fast", "paper"]) -> None:
    settings = ViewSettings(recipe=recipe)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = random_views(IMAGES, settings, 1, 2, 3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(6)
    assert torch.equal(random_views(IMAGES, settings, 1, 2, 3), first)
    assert not torch.equal(random_views(IMAGES, settings, 1, 2, 4), first)


@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_gray_images_and_another_size(recipe: Literal["fast", "paper"]) -> None:
    made = random_views(IMAGES[:, :1], ViewSettings(recipe=recipe, size=8), 0)
    assert made.shape == (6, 3, 8, 8)
    assert torch.isfinite(made).all()


def test_a_crop_lies_within_the_image_and_has_the_area_asked_for() -> None:
    maps = crops(torch.rand(500, 5, generator=torch.Generator().manual_seed(1)), 0.08)
    width, height = maps[:, 0, 0].abs(), maps[:, 1, 1]
    assert ((width + maps[:, 0, 2].abs()) <= 1 + 1e-6).all()
    assert ((height + maps[:, 1, 2].abs()) <= 1 + 1e-6).all()
    assert (width * height).min() >= 0.07
    assert 0.4 < (maps[:, 0, 0] < 0).float().mean() < 0.6


def test_no_change_of_color_is_the_identity_and_gray_has_equal_channels() -> None:
    draws = torch.tensor(
        [[0.5, 0.5, 0.5, 0.5, 0.0, 1.0], [0.9, 0.1, 0.7, 0.2, 0.0, 0.0], [0.9, 0.1, 0.7, 0.2, 1.0, 1.0]]
    )
    matrix, offset = color_maps(draws, torch.rand(3, 3))
    torch.testing.assert_close(matrix[0], torch.eye(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(offset[0], torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(matrix[1], matrix[1][:1].expand(3, 3))
    assert torch.equal(matrix[2], torch.eye(3))


def test_a_turn_of_hue_keeps_the_luma_and_contrast_keeps_the_mean() -> None:
    draws = torch.tensor([[0.5, 0.5, 0.5, 0.9, 0.0, 1.0], [0.5, 0.9, 0.5, 0.5, 0.0, 1.0]])
    mean = torch.tensor([[0.2, 0.5, 0.3]]).expand(2, 3)
    matrix, offset = color_maps(draws, mean)
    luma = torch.tensor([0.299, 0.587, 0.114])
    changed = (matrix @ mean[:, :, None])[:, :, 0] + offset
    torch.testing.assert_close(changed @ luma, mean @ luma, atol=1e-3, rtol=0)


def test_normalized_has_the_usual_mean_and_spread() -> None:
    mean, spread = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    images = (mean + spread).view(1, 3, 1, 1).expand(2, 3, 4, 4)
    torch.testing.assert_close(normalized(images), torch.ones(2, 3, 4, 4))
