"""Corruptions by weather."""

import numpy as np
import numpy.typing as npt

from ._blur import clipped_zoom, trail
from ._types import Doubles, Generators

_LUMA = np.array([0.299, 0.587, 0.114])
_WATER, _MUD = np.array([175, 238, 238]) / 255, np.array([63, 42, 20]) / 255
_FROST = np.array([0.86, 0.94, 1.0])
_EMBOSS = np.array([[-2.0, -1, 0], [-1, 1, 1], [0, 1, 2]])
_FARTHEST = 20


def fog(images: Doubles, constants: tuple[float, float], generators: Generators) -> Doubles:
    """Adds a plasma fractal and scales back to the image's own maximum."""
    amount, decay = constants
    height, width = images.shape[1:3]
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    foggy = images + amount * plasma(height, width, decay, generators)[..., None]
    return np.asarray(foggy * brightest / (brightest + amount))


def plasma(height: int, width: int, decay: float, generators: Generators) -> Doubles:
    """(n, H, W) heights from 0 to 1 by the diamond-square algorithm on a torus.

    Each point is the mean of four neighbours plus noise, whose size falls by `decay`² from one scale to the next.
    """
    side = 1 << (max(height, width, 2) - 1).bit_length()
    noise = np.stack([rng.uniform(-1, 1, (side, side)) for rng in generators])
    heights = np.zeros_like(noise)
    step, rough = side, 100.0**2
    while step >= 2:
        half = step // 2
        corners = heights[:, ::step, ::step]
        rows = corners + np.roll(corners, -1, 1)
        centers = (rows + np.roll(rows, -1, 2)) / 4 + rough * noise[:, half::step, half::step]
        heights[:, half::step, half::step] = centers
        top = corners + np.roll(corners, -1, 2) + centers + np.roll(centers, 1, 1)
        heights[:, ::step, half::step] = top / 4 + rough * noise[:, ::step, half::step]
        left = corners + np.roll(corners, -1, 1) + centers + np.roll(centers, 1, 2)
        heights[:, half::step, ::step] = left / 4 + rough * noise[:, half::step, ::step]
        step, rough = half, rough / decay**2
    heights -= heights.min(axis=(1, 2), keepdims=True)
    heights /= heights.max(axis=(1, 2), keepdims=True)
    return heights[:, :height, :width]


def frost(images: Doubles, constants: tuple[float, float], generators: Generators) -> Doubles:
    """Adds ice crystals, a texture made here where the published set has photographs."""
    kept, added = constants
    height, width = images.shape[1:3]
    return kept * images + added * _colored(_crystals(height, width, generators), _FROST, images)


def _crystals(height: int, width: int, generators: Generators) -> Doubles:
    """(n, H, W) brightness from 0 to 1: needles in three directions 60° apart over ridges of a plasma fractal."""
    ridges = 1 - np.abs(2 * plasma(height, width, 1.6, generators) - 1)
    seeds = np.stack([rng.random((height, width)) for rng in generators])
    first = np.array([rng.uniform(0, 60) for rng in generators])
    needles = np.zeros_like(ridges)
    for turn in (0, 60, 120):
        sparse = np.where((seeds > turn / 180) & (seeds < turn / 180 + 0.04), 1.0, 0.0)[..., None]
        for back in (0, 180):
            needles = np.maximum(needles, trail(sparse, 5, 3, first + turn + back)[..., 0])
    strongest = np.maximum(needles.max(axis=(1, 2), keepdims=True), np.finfo(float).tiny)
    return np.asarray(0.35 * ridges + 0.65 * needles / strongest)


def snow(images: Doubles, constants: tuple[float, ...], rngs: Generators) -> Doubles:
    """Whitens the image and adds flakes that fall, and the same flakes turned by half a circle."""
    mean, sigma, zoom, threshold, radius, blur, kept = constants
    height, width = images.shape[1:3]
    flakes = np.stack([rng.normal(mean, sigma, (height, width, 1)) for rng in rngs])
    flakes = clipped_zoom(flakes, zoom)
    flakes[flakes < threshold] = 0
    flakes = np.floor(np.clip(flakes, 0, 1) * 255) / 255
    flakes = trail(flakes, radius, blur, np.array([rng.uniform(-135, -45) for rng in rngs]))
    gray = images @ _LUMA[:, None] if images.shape[3] == 3 else images
    whiter = kept * images + (1 - kept) * np.maximum(images, gray * 1.5 + 0.5)
    return np.asarray(whiter + flakes + flakes[:, ::-1, ::-1])


def spatter(
    images: Doubles, constants: tuple[float, float, float, float, float, int], generators: Generators
) -> Doubles:
    """Drops of water, lit from one side, or splashes of mud."""
    from scipy.ndimage import gaussian_filter

    mean, sigma, blur, threshold, strength, mud = constants
    height, width = images.shape[1:3]
    liquid = np.stack([rng.normal(mean, sigma, (height, width)) for rng in generators])
    liquid = gaussian_filter(liquid, (0, blur, blur), mode="nearest")
    liquid[liquid < threshold] = 0
    if mud:
        wet = gaussian_filter((liquid > threshold).astype(np.float64), (0, strength, strength), mode="nearest")
        wet[wet < 0.8] = 0
        return np.asarray(images * (1 - wet[..., None]) + _colored(wet, _MUD, images))
    drops = np.stack([_lit(np.floor(layer * 255)) for layer in np.clip(liquid, 0, 1)])
    return np.asarray(images + strength * _colored(drops, _WATER, images))


def _lit(liquid: Doubles) -> Doubles:
    """(H, W) light from 0 to 1 on drops (H, W) of 0 to 255: an emboss of the distance to their edges."""
    from scipy.ndimage import correlate, distance_transform_edt, uniform_filter

    lines = edges(liquid)
    distance = distance_transform_edt(~lines) if lines.any() else np.full(liquid.shape, float(_FARTHEST))
    near = np.floor(uniform_filter(np.minimum(distance, _FARTHEST), 3, mode="mirror"))
    relief = np.clip(correlate(_equalized(near.astype(np.int64)), _EMBOSS, mode="mirror"), 0, 255)
    light = liquid * np.rint(uniform_filter(relief, 3, mode="mirror"))
    return np.asarray(light / light.max()) if light.max() > 0 else light


def edges(gray: Doubles, low: float = 50, high: float = 150) -> npt.NDArray[np.bool_]:
    """(H, W) where Canny finds an edge: a ridge of the gradient above `low` that is above `high` somewhere."""
    from scipy.ndimage import label, sobel

    across, down = sobel(gray, 1, mode="nearest"), sobel(gray, 0, mode="nearest")
    size = np.abs(across) + np.abs(down)
    sector = np.rint(np.arctan2(down, across) / (np.pi / 4)).astype(np.int64) % 4
    padded = np.pad(size, 1)
    height, width = gray.shape
    ridge = np.zeros(gray.shape, bool)
    for number, (y, x) in enumerate(((0, 1), (1, 1), (1, 0), (1, -1))):
        ahead = padded[1 + y : 1 + y + height, 1 + x : 1 + x + width]
        behind = padded[1 - y : 1 - y + height, 1 - x : 1 - x + width]
        ridge |= (sector == number) & (size > behind) & (size >= ahead)
    parts, _ = label(ridge & (size > low), np.ones((3, 3)))
    strong = np.unique(parts[ridge & (size > high)])
    return np.isin(parts, strong[strong > 0])


def _equalized(values: npt.NDArray[np.int64]) -> Doubles:
    """(H, W) the same values, spread so that their distribution is even from 0 to 255."""
    counts = np.bincount(values.ravel(), minlength=256)
    lowest = counts[np.flatnonzero(counts)[0]]
    if lowest == values.size:
        return values.astype(np.float64)
    return np.asarray(np.rint((np.cumsum(counts) - lowest) * 255 / (values.size - lowest))[values])


def _colored(layer: Doubles, color: Doubles, images: Doubles) -> Doubles:
    """(n, H, W, C) a layer (n, H, W) in a colour, or in the grey of that colour where the images are grey."""
    return np.asarray(layer[..., None] * (color if images.shape[3] == 3 else color @ _LUMA))
