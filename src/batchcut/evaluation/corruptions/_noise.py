"""Corruptions by noise."""

import numpy as np

from ._types import Doubles, Generators


def gaussian_noise(images: Doubles, sigma: float, generators: Generators) -> Doubles:
    """Adds normal noise of deviation σ."""
    return images + sigma * _normal(images, generators)


def speckle_noise(images: Doubles, sigma: float, generators: Generators) -> Doubles:
    """Adds normal noise of deviation σ times the value."""
    return images + images * sigma * _normal(images, generators)


def shot_noise(images: Doubles, photons: float, generators: Generators) -> Doubles:
    """Counts photons: a Poisson number for each value, `photons` of them being white."""
    counts = [rng.poisson(image * photons) for image, rng in zip(images, generators, strict=True)]
    return np.stack(counts) / photons


def impulse_noise(images: Doubles, amount: float, generators: Generators) -> Doubles:
    """Turns a share of the values to 0 or 1, as many to the one as to the other."""
    drawn = np.stack([rng.random(images.shape[1:]) for rng in generators])
    return np.where(drawn < amount / 2, 0.0, np.where(drawn < amount, 1.0, images))


def _normal(images: Doubles, generators: Generators) -> Doubles:
    return np.stack([rng.standard_normal(images.shape[1:]) for rng in generators])
