"""Samples by index, a whole batch at once: two random views of images, or pairs of features."""

import math
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from batchcut.data import Images, Pairs, Split

from ._config import DataSettings, ViewSettings
from ._random import generator, seeded

Indices = NDArray[np.int64]

_MEAN, _SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_FLIP, _JITTER, _GRAY, _BLUR = 0.5, 0.8, 0.2, 1.0  # the authors blur every view
_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE = 0.4, 0.4, 0.2, 0.1
_SHAPES = math.log(3 / 4), math.log(4 / 3)
_LUMA = (0.299, 0.587, 0.114)
_YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


class Source(Protocol):
    """Gives both sides of any samples."""

    random: bool
    inputs: tuple[int, int] | None

    def __len__(self) -> int: ...

    def sides(self, index: Indices, device: torch.device, *numbers: int) -> tuple[Tensor, Tensor]:
        """The two sides of the samples index: (n,), on the device; random ones are a function of the numbers."""


class ImageSource:
    """Two random views of each of some images pixels: (N, C, H, W).

    Attributes:
        random: whether the sides are drawn anew each time.
        inputs: the widths of the features of the two sides; None for images.
    """

    random = True
    inputs: tuple[int, int] | None = None

    def __init__(self, pixels: NDArray[np.uint8], views: ViewSettings) -> None:
        self.pixels, self.views = pixels, views

    def __len__(self) -> int:
        return len(self.pixels)

    def sides(self, index: Indices, device: torch.device, *numbers: int) -> tuple[Tensor, Tensor]:
        """See `Source`."""
        images = torch.from_numpy(self.pixels[index]).to(device)
        x, y = random_views(torch.cat([images, images]), self.views, *numbers).chunk(2)
        return x, y


class PairSource:
    """The two sides u: (N, d_u), v: (N, d_v) of pairs, as they are; for the attributes see `ImageSource`."""

    random = False

    def __init__(self, u: NDArray[np.floating], v: NDArray[np.floating]) -> None:
        self.u, self.v = u, v
        self.inputs: tuple[int, int] | None = (int(u.shape[1]), int(v.shape[1]))

    def __len__(self) -> int:
        return len(self.u)

    def sides(self, index: Indices, device: torch.device, *_: int) -> tuple[Tensor, Tensor]:
        """See `Source`."""
        u, v = (torch.from_numpy(np.asarray(side[index], np.float32)).to(device) for side in (self.u, self.v))
        return u, v


def sources(split: Split, data: DataSettings, views: ViewSettings) -> tuple[Source, Source]:
    """The training set and the test set, cut to the sizes asked for."""
    return _source(split.train, data.train, views), _source(split.test, data.test, views)


def _source(part: Images | Pairs, most: int | None, views: ViewSettings) -> Source:
    if isinstance(part, Pairs):
        return PairSource(part.u[:most], part.v[:most])
    return ImageSource(part.pixels[:most], views)


def random_views(images: Tensor, settings: ViewSettings, *numbers: int) -> Tensor:
    """Images (n, C, H, W) uint8 to views (n, 3, h, w) float, normalised; a function of them and the numbers."""
    side = settings.size
    size = (images.shape[-2], images.shape[-1]) if side is None else (side, side)
    make = _paper_views if settings.recipe == "paper" else _fast_views
    return normalized(make(to_rgb(images), size, settings.smallest_crop, numbers))


def to_rgb(images: Tensor) -> Tensor:
    """Images (n, C, H, W) uint8 as floats from 0 to 1 with three channels; grey ones are repeated."""
    return images.float().div_(255).expand(-1, 3, -1, -1)


def normalized(images: Tensor) -> Tensor:
    """Images (n, 3, H, W) from 0 to 1, with each channel's usual mean taken off and divided by its usual spread."""
    mean, spread = (images.new_tensor(values).view(3, 1, 1) for values in (_MEAN, _SPREAD))
    return (images - mean) / spread


def _paper_views(images: Tensor, size: tuple[int, int], smallest_crop: float, numbers: tuple[int, ...]) -> Tensor:
    """The authors' views, by Kornia: crop, flip, jitter, grey, blur, each image with its own."""
    with seeded(images.device, *numbers):
        views: Tensor = _kornia_views(size, smallest_crop)(images)
        return views


@lru_cache(maxsize=4)
def _kornia_views(size: tuple[int, int], smallest_crop: float) -> Any:
    import kornia.augmentation as K

    kernel = max(3, size[0] // 10 // 2 * 2 + 1)  # a tenth of the image, as in SimCLR
    return K.AugmentationSequential(
        K.RandomResizedCrop(size, scale=(smallest_crop, 1.0), ratio=(3 / 4, 4 / 3)),
        K.RandomHorizontalFlip(p=_FLIP),
        K.ColorJitter(_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE, p=_JITTER),
        K.RandomGrayscale(p=_GRAY),
        K.RandomGaussianBlur((kernel, kernel), (0.1, 2.0), p=_BLUR),
    )


def _fast_views(images: Tensor, size: tuple[int, int], smallest_crop: float, numbers: tuple[int, ...]) -> Tensor:
    """Crop and flip by one resampling, and all changes of colour by one 3×3 matrix for each image; no blur.

    Brightness, contrast (around the mean luma of the image), saturation and grey are linear maps of (R, G, B), and so
    is the turn of the hue in YIQ; they are multiplied before they are applied, so that values are clipped once.
    """
    draws = torch.rand(len(images), 11, generator=generator(*numbers)).to(images.device)
    grid = F.affine_grid(crops(draws[:, :5], smallest_crop), [len(images), 1, *size], align_corners=False)
    cropped = F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)
    matrix, offset = color_maps(draws[:, 5:], cropped.mean(dim=(2, 3)))
    pixels = torch.baddbmm(offset[:, :, None], matrix, cropped.flatten(2)).clamp_(0, 1)
    return pixels.view(cropped.shape)


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


def color_maps(draws: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix (n, 3, 3) and an offset (n, 3) for each image, from draws (n, 6) and its mean colour (n, 3)."""
    luma = draws.new_tensor(_LUMA)
    spread = 2 * draws - 1
    brightness, contrast = 1 + _BRIGHTNESS * spread[:, 0], 1 + _CONTRAST * spread[:, 1]
    saturation, angle = 1 + _SATURATION * spread[:, 2], 2 * math.pi * _HUE * spread[:, 3]
    jittered = draws[:, 4] < _JITTER
    eye = torch.eye(3, device=draws.device)
    to_gray = luma.expand(3, 3)
    saturate = to_gray + saturation[:, None, None] * (eye - to_gray)
    matrix = (brightness * contrast)[:, None, None] * (saturate @ _turns(angle))
    gray_level = brightness * (1 - contrast) * (mean @ luma)
    matrix = torch.where(jittered[:, None, None], matrix, eye)
    offset = torch.where(jittered, gray_level, 0.0)[:, None].expand(-1, 3)
    return torch.where((draws[:, 5] < _GRAY)[:, None, None], to_gray @ matrix, matrix), offset


def _turns(angle: Tensor) -> Tensor:
    """Matrices (n, 3, 3) that turn the hue by angles (n,) in radians."""
    to_yiq = angle.new_tensor(_YIQ)
    turn = torch.eye(3, device=angle.device).repeat(len(angle), 1, 1)
    turn[:, 1, 1] = turn[:, 2, 2] = angle.cos()
    turn[:, 1, 2], turn[:, 2, 1] = -angle.sin(), angle.sin()
    turned: Tensor = torch.linalg.inv(to_yiq) @ turn @ to_yiq
    return turned
