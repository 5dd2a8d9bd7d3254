"""Corruptions by blur."""

import math
from collections.abc import Sequence

import numpy as np

from ._types import Doubles, Generators

_DISK_REACH = 8


def gaussian_blur(images: Doubles, sigma: float, _: Generators) -> Doubles:
    """Blurs by a Gaussian of deviation σ."""
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(images, (0, sigma, sigma, 0), mode="nearest"))


def glass_blur(images: Doubles, constants: tuple[float, int, int], generators: Generators) -> Doubles:
    """Blurs, gives each pixel the colour of one up to `reach` up and left of it, some times over, and blurs again.

    The published set was meant to swap pixels, but its generator copies one over the other; with a reach of 1, which
    all severities have, the pixel that is copied has not been changed before.
    """
    sigma, reach, rounds = constants
    height, width = images.shape[1:3]
    inner = (2, height - reach - 1, width - reach - 1)
    pixels = np.floor(gaussian_blur(images, sigma, generators) * 255 + 1e-6) / 255
    rows, columns = np.mgrid[0:height, 0:width]
    for _ in range(rounds):
        moved = np.zeros((2, len(images), height, width), np.int64)
        for number, rng in enumerate(generators):
            moved[:, number, reach + 1 :, reach + 1 :] = rng.integers(-reach, reach, inner)
        picture = np.arange(len(images))[:, None, None]
        pixels = pixels[picture, rows + moved[0], columns + moved[1]]
    return gaussian_blur(pixels, sigma, generators)


def disk_kernel(radius: float, alias_blur: float) -> Doubles:
    """(17, 17) even weights within `radius` of the middle, softened by a Gaussian over 3 × 3."""
    from scipy.ndimage import convolve1d

    grid = np.arange(-_DISK_REACH, _DISK_REACH + 1)
    disk = (grid[:, None] ** 2 + grid[None, :] ** 2 <= radius**2).astype(np.float64)
    soft = np.exp(-(np.array([-1.0, 0, 1]) ** 2) / (2 * alias_blur**2))
    soft /= soft.sum()
    for axis in (0, 1):
        disk = convolve1d(disk, soft, axis, mode="constant")
    return np.asarray(disk / disk.sum())


def defocus_blur(images: Doubles, constants: tuple[float, float], _: Generators) -> Doubles:
    """Blurs by a disk."""
    from scipy.ndimage import correlate

    kernel = disk_kernel(*constants)
    reach = int(np.abs(np.argwhere(kernel > 0) - _DISK_REACH).max())
    middle = slice(_DISK_REACH - reach, _DISK_REACH + reach + 1)
    return np.asarray(correlate(images, kernel[middle, middle][None, :, :, None], mode="mirror"))


def motion_blur(images: Doubles, constants: tuple[float, float], generators: Generators) -> Doubles:
    """Blurs along a line whose angle is uniform in ±45°."""
    return trail(images, *constants, np.array([rng.uniform(-45, 45) for rng in generators]))


def trail(images: Doubles, radius: float, sigma: float, angles: Doubles) -> Doubles:
    """Each pixel becomes the mean of those on a line that starts at it, weighted by half a Gaussian of deviation σ.

    The line has 2 ⌈radius⌉ + 1 pixels at `angles` (n,) in degrees; beyond the edge, the edge goes on. This is the
    motion blur of ImageMagick, which the published set was made with.
    """
    height, width = images.shape[1:3]
    weights = np.exp(-(np.arange(2 * math.ceil(radius) + 1) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    radians, picture = np.deg2rad(angles), np.arange(len(images))[:, None, None]
    result = np.zeros_like(images)
    for step, weight in enumerate(weights):
        down, right = (np.ceil(step * part(radians) - 0.5).astype(np.int64) for part in (np.sin, np.cos))
        rows = np.clip(np.arange(height)[None, :] + down[:, None], 0, height - 1)[:, :, None]
        columns = np.clip(np.arange(width)[None, :] + right[:, None], 0, width - 1)[:, None, :]
        result += weight * images[picture, rows, columns]
    return result


def zoom_blur(images: Doubles, factors: Sequence[float], _: Generators) -> Doubles:
    """The mean of the image and of its middle, enlarged by each of the factors."""
    total = images.copy()
    for factor in factors:
        total += clipped_zoom(images, factor)
    return total / (len(factors) + 1)


def clipped_zoom(images: Doubles, factor: float) -> Doubles:
    """The middle of each image (n, H, W, C), enlarged to the image's size by linear interpolation."""
    down, across = (zoom_matrix(size, factor) for size in images.shape[1:3])
    count, height, width, channels = images.shape
    tall = down @ images.reshape(count, height, width * channels)
    return np.asarray(across @ tall.reshape(count, height, width, channels))


def zoom_matrix(size: int, factor: float) -> Doubles:
    """(size, size) weights that enlarge the middle ⌈size / factor⌉ of as many values, first to first, last to last."""
    kept = math.ceil(size / factor)
    start, grown = (size - kept) // 2, round(kept * factor)
    places = np.arange(grown) * ((kept - 1) / max(grown - 1, 1))
    lower = np.minimum(places.astype(np.int64), max(kept - 2, 0))
    weights = np.zeros((grown, size))
    weights[np.arange(grown), start + lower] = 1 - (places - lower)
    weights[np.arange(grown), start + np.minimum(lower + 1, kept - 1)] += places - lower
    trimmed = (grown - size) // 2
    return weights[trimmed : trimmed + size]
