"""Two views of each image, on the device."""

import math
from functools import lru_cache
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ._random import generator, seeded
from ._settings import ViewSettings

_MEAN, _SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_FLIP, _JITTER, _GREY, _BLUR = 0.5, 0.8, 0.2, 1.0  # the authors blur every view
_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE = 0.4, 0.4, 0.2, 0.1
_SHAPES = math.log(3 / 4), math.log(4 / 3)
_LUMA = (0.299, 0.587, 0.114)
_YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


class Views(Protocol):
    """Makes a random view of each image."""

    def __call__(self, images: Tensor, *numbers: int) -> Tensor:
        """Images (n, C, H, W) uint8 to views (n, 3, h, w) float, normalised; a function of them and the numbers."""


def views_of(settings: ViewSettings) -> Views:
    """What makes the views that the settings describe."""
    return PaperViews(settings) if settings.recipe == "paper" else FastViews(settings)


def coloured(images: Tensor) -> Tensor:
    """Images (n, C, H, W) uint8 as floats from 0 to 1 with three channels; grey ones are repeated."""
    return images.float().div_(255).expand(-1, 3, -1, -1)


def normalised(images: Tensor) -> Tensor:
    """Images (n, 3, H, W) from 0 to 1, with each channel's usual mean taken off and divided by its usual spread."""
    mean, spread = (images.new_tensor(values).view(3, 1, 1) for values in (_MEAN, _SPREAD))
    return (images - mean) / spread


class PaperViews:
    """The authors' views, by Kornia: crop, flip, jitter, grey, blur, each image with its own."""

    def __init__(self, settings: ViewSettings) -> None:
        self.settings = settings

    def __call__(self, images: Tensor, *numbers: int) -> Tensor:
        """See `Views`."""
        side = self.settings.size
        size = (images.shape[-2], images.shape[-1]) if side is None else (side, side)
        with seeded(images.device, *numbers):
            return normalised(_kornia_views(size, self.settings.smallest_crop)(coloured(images)))


@lru_cache(maxsize=4)
def _kornia_views(size: tuple[int, int], smallest_crop: float) -> Any:
    import kornia.augmentation as K

    kernel = max(3, size[0] // 10 // 2 * 2 + 1)  # a tenth of the image, as in SimCLR
    return K.AugmentationSequential(
        K.RandomResizedCrop(size, scale=(smallest_crop, 1.0), ratio=(3 / 4, 4 / 3)),
        K.RandomHorizontalFlip(p=_FLIP),
        K.ColorJitter(_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE, p=_JITTER),
        K.RandomGrayscale(p=_GREY),
        K.RandomGaussianBlur((kernel, kernel), (0.1, 2.0), p=_BLUR),
    )


class FastViews:
    """Crop and flip by one resampling, and all changes of colour by one 3×3 matrix for each image; no blur.

    Brightness, contrast (around the mean luma of the image), saturation and grey are linear maps of (R, G, B), and so
    is the turn of the hue in YIQ; they are multiplied before they are applied, so that values are clipped once.
    """

    def __init__(self, settings: ViewSettings) -> None:
        self.settings = settings

    def __call__(self, images: Tensor, *numbers: int) -> Tensor:
        """See `Views`."""
        draws = torch.rand(len(images), 11, generator=generator(*numbers)).to(images.device)
        side = self.settings.size
        size = (images.shape[-2], images.shape[-1]) if side is None else (side, side)
        grid = F.affine_grid(
            crops(draws[:, :5], self.settings.smallest_crop), [len(images), 1, *size], align_corners=False
        )
        cropped = F.grid_sample(coloured(images), grid, padding_mode="reflection", align_corners=False)
        matrix, offset = colour_maps(draws[:, 5:], cropped.mean(dim=(2, 3)))
        pixels = torch.baddbmm(offset[:, :, None], matrix, cropped.flatten(2)).clamp_(0, 1)
        return normalised(pixels.view(cropped.shape))


def crops(draws: Tensor, smallest: float) -> Tensor:
    """Affine maps (n, 2, 3) from a view to a random part of the image, some mirrored, from draws (n, 5) in 0 to 1.

    The area is uniform in (smallest, 1), the logarithm of the shape in (log 3/4, log 4/3); a side longer than the
    image's is cut to it.
    """
    area = smallest + (1 - smallest) * draws[:, 0]
    shape = (_SHAPES[0] + (_SHAPES[1] - _SHAPES[0]) * draws[:, 1]).exp()
    width, height = (area * shape).sqrt().clamp(max=1), (area / shape).sqrt().clamp(max=1)
    maps = draws.new_zeros(len(draws), 2, 3)
    maps[:, 0, 0] = torch.where(draws[:, 4] < _FLIP, -width, width)
    maps[:, 1, 1] = height
    maps[:, 0, 2] = (1 - width) * (2 * draws[:, 2] - 1)
    maps[:, 1, 2] = (1 - height) * (2 * draws[:, 3] - 1)
    return maps


def colour_maps(draws: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix (n, 3, 3) and an offset (n, 3) for each image, from draws (n, 6) and its mean colour (n, 3)."""
    luma = draws.new_tensor(_LUMA)
    spread = 2 * draws - 1
    brightness, contrast = 1 + _BRIGHTNESS * spread[:, 0], 1 + _CONTRAST * spread[:, 1]
    saturation, angle = 1 + _SATURATION * spread[:, 2], 2 * math.pi * _HUE * spread[:, 3]
    jittered = draws[:, 4] < _JITTER
    eye = torch.eye(3, device=draws.device)
    to_grey = luma.expand(3, 3)
    saturate = to_grey + saturation[:, None, None] * (eye - to_grey)
    matrix = (brightness * contrast)[:, None, None] * (saturate @ _turns(angle))
    grey_level = brightness * (1 - contrast) * (mean @ luma)
    matrix = torch.where(jittered[:, None, None], matrix, eye)
    offset = torch.where(jittered, grey_level, 0.0)[:, None].expand(-1, 3)
    return torch.where((draws[:, 5] < _GREY)[:, None, None], to_grey @ matrix, matrix), offset


def _turns(angle: Tensor) -> Tensor:
    """Matrices (n, 3, 3) that turn the hue by angles (n,) in radians."""
    to_yiq = angle.new_tensor(_YIQ)
    turn = torch.eye(3, device=angle.device).repeat(len(angle), 1, 1)
    turn[:, 1, 1] = turn[:, 2, 2] = angle.cos()
    turn[:, 1, 2], turn[:, 2, 1] = -angle.sin(), angle.sin()
    turned: Tensor = torch.linalg.inv(to_yiq) @ turn @ to_yiq
    return turned
