"""The 19 corruptions of CIFAR-100-C, made on the spot.

Constants are those that the published set was made with, for images of 32 × 32. What differs from it: all is NumPy,
SciPy and Pillow; random numbers are a function of a seed; and frost, for which the published set uses photographs, is
a texture made here.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from batchcut._errors import check_integer, invalid, wrong_type
from batchcut._random import Stream, generator

from . import _blur, _digital, _noise, _weather
from ._types import Bytes, Doubles, Generators

_AT_ONCE = 256
_ZOOMS = tuple(tuple(1 + step / 100 for step in range(count)) for count in (6, 11, 16, 21, 26))


class _Corruption(NamedTuple):
    apply: Callable[[Doubles, Any, Generators], Doubles]
    constants: tuple[Any, ...]  # of severities 1 to 5


_TABLE: dict[str, _Corruption] = {
    "brightness": _Corruption(_digital.brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": _Corruption(_digital.contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "defocus_blur": _Corruption(_blur.defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    "elastic_transform": _Corruption(
        _digital.elastic_transform,
        ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
    ),
    "fog": _Corruption(_weather.fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "frost": _Corruption(_weather.frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "gaussian_blur": _Corruption(_blur.gaussian_blur, (0.4, 0.6, 0.7, 0.8, 1)),
    "gaussian_noise": _Corruption(_noise.gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.1)),
    "glass_blur": _Corruption(_blur.glass_blur, ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2))),
    "impulse_noise": _Corruption(_noise.impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "jpeg_compression": _Corruption(_digital.jpeg_compression, (80, 65, 58, 50, 40)),
    "motion_blur": _Corruption(_blur.motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))),
    "pixelate": _Corruption(_digital.pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
    "saturate": _Corruption(_digital.saturate, ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))),
    "shot_noise": _Corruption(_noise.shot_noise, (500, 250, 100, 75, 50)),
    "snow": _Corruption(
        _weather.snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
    ),
    "spatter": _Corruption(
        _weather.spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
    ),
    "speckle_noise": _Corruption(_noise.speckle_noise, (0.06, 0.1, 0.12, 0.16, 0.2)),
    "zoom_blur": _Corruption(_blur.zoom_blur, _ZOOMS),
}

CORRUPTIONS: tuple[str, ...] = tuple(_TABLE)


def corrupt(pixels: Bytes, corruption: str, *, severity: int = 1, seed: int = 0, first: int = 0) -> Bytes:
    """Corrupts images pixels: (N, C, H, W) uint8; what comes out has the same shape and type.

    Image i is corrupted by a function of (corruption, severity, seed, first + i) and of the image itself, so that
    parts of a set come out as the whole does. On images of another size than 32 × 32 the constants are the same,
    but for those of "elastic_transform", which are shares of the side.

    Args:
        pixels: The images; C is 1 or 3.
        corruption: One of `CORRUPTIONS`.
        severity: 1 to 5.
        seed: What all randomness is a function of.
        first: The number of the first image, where these are part of a larger set.
    """
    if corruption not in _TABLE:
        raise invalid("corruption", f"be one of {', '.join(CORRUPTIONS)}", repr(corruption))
    level = check_integer("severity", severity, at_least=1, at_most=5)
    check_integer("seed", seed, at_least=0)
    check_integer("first", first, at_least=0)
    if pixels.dtype != np.uint8:
        raise wrong_type("pixels", "hold uint8", pixels.dtype.type(0))
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3) or 0 in pixels.shape[1:]:
        raise invalid("pixels", "have shape (N, C, H, W) with C = 1 or 3", pixels.shape)
    entry = _TABLE[corruption]
    result = np.empty_like(pixels)
    for start in range(0, len(pixels), _AT_ONCE):
        images = pixels[start : start + _AT_ONCE].transpose(0, 2, 3, 1) / 255
        numbers = range(first + start, first + start + len(images))
        kind = CORRUPTIONS.index(corruption)
        generators = [generator(Stream.CORRUPTIONS, kind, level, seed, number) for number in numbers]
        corrupted = entry.apply(images, entry.constants[level - 1], generators)
        result[start : start + len(images)] = to_bytes(corrupted).transpose(0, 3, 1, 2)
    return result


def to_bytes(images: Doubles) -> Bytes:
    """Clips to 0 to 1 and cuts off what a byte cannot hold, as the published set does; whole bytes stay as they are."""
    return np.asarray(np.clip(images, 0, 1) * 255 + 1e-6, np.uint8)
