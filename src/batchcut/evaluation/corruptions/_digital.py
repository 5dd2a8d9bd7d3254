"""Corruptions by processing."""

import io
from typing import TYPE_CHECKING

import numpy as np

from batchcut._errors import needs

from ._types import Doubles, Generators

if TYPE_CHECKING:
    from PIL.Image import Image


def contrast(images: Doubles, factor: float, _: Generators) -> Doubles:
    """Pulls each channel towards its mean."""
    means = images.mean(axis=(1, 2), keepdims=True)
    return np.asarray((images - means) * factor + means)


def brightness(images: Doubles, added: float, _: Generators) -> Doubles:
    """Adds to the value of HSV, which leaves hue and saturation: all channels grow by one factor."""
    value = images.max(axis=3, keepdims=True)
    brighter = np.clip(value + added, 0, 1)
    return np.asarray(np.where(value > 0, images * (brighter / np.where(value > 0, value, 1)), brighter))


def saturate(images: Doubles, constants: tuple[float, float], _: Generators) -> Doubles:
    """Changes the saturation s of HSV to factor · s + offset. A grey pixel has the hue of red; a grey image stays."""
    factor, offset = constants
    if images.shape[3] == 1:
        return images
    value, lowest = images.max(axis=3, keepdims=True), images.min(axis=3, keepdims=True)
    spread = value - lowest
    colored = spread > 0
    saturation = spread / np.where(value > 0, value, 1)
    shape = np.where(colored, (value - images) / np.where(colored, spread, 1), np.array([0.0, 1, 1]))
    return np.asarray(value * (1 - np.clip(saturation * factor + offset, 0, 1) * shape))


def jpeg_compression(images: Doubles, quality: int, _: Generators) -> Doubles:
    """Writes and reads each image as JPEG."""
    return np.stack([_array(_through_jpeg(picture, quality)) for picture in _pictures(images)])


def _through_jpeg(picture: "Image", quality: int) -> "Image":
    from PIL.Image import open as read_image

    written = io.BytesIO()
    picture.save(written, "JPEG", quality=quality)
    return read_image(written)


def pixelate(images: Doubles, factor: float, _: Generators) -> Doubles:
    """Makes each image smaller and large again, by means over boxes."""
    with needs("pillow", "corruptions"):
        from PIL import Image
    height, width = images.shape[1:3]
    small = max(1, int(width * factor)), max(1, int(height * factor))
    box = Image.Resampling.BOX
    return np.stack([_array(each.resize(small, box).resize((width, height), box)) for each in _pictures(images)])


def elastic_transform(images: Doubles, constants: tuple[float, float, float], generators: Generators) -> Doubles:
    """Moves three points at random and the image with them; then moves each pixel by smooth noise.

    The constants are shares of the shorter side: how far pixels move, how smooth the noise is, how far points move.
    """
    side = min(images.shape[1:3])
    far, smooth, jitter = (side * share for share in constants)
    return np.stack([_bent(image, far, smooth, jitter, rng) for image, rng in zip(images, generators, strict=True)])


def _bent(image: Doubles, far: float, smooth: float, jitter: float, rng: np.random.Generator) -> Doubles:
    from scipy.ndimage import gaussian_filter, map_coordinates

    height, width, channels = image.shape
    points = affine_points(height, width)
    target = points + rng.uniform(-jitter, jitter, points.shape)
    # Where each pixel of the result comes from: the affine map that takes the moved points back.
    back = np.linalg.solve(np.column_stack([target, np.ones(3)]), points)
    grid = np.mgrid[0:height, 0:width].reshape(2, -1).T
    source = (np.column_stack([grid, np.ones(len(grid))]) @ back).T.reshape(2, height, width)
    moved = np.stack([map_coordinates(image[..., c], source, order=1, mode="mirror") for c in range(channels)], axis=-1)
    if far == 0:
        return moved
    noise = rng.uniform(-1, 1, (2, height, width))
    shift = gaussian_filter(noise, (0, smooth, smooth), mode="reflect", truncate=3) * far
    places = np.mgrid[0:height, 0:width] + shift
    return np.stack([map_coordinates(moved[..., c], places, order=1, mode="reflect") for c in range(channels)], axis=-1)


def affine_points(height: int, width: int) -> Doubles:
    """(3, 2) rows and columns of the points that fix the affine map: a third of the side from the middle."""
    reach = min(height, width) // 3
    middle = np.array([height // 2, width // 2], np.float64)
    return np.stack([middle + reach, middle + np.array([-reach, reach]), middle - reach])


def _pictures(images: Doubles) -> list["Image"]:
    with needs("pillow", "corruptions"):
        from PIL import Image
    whole = np.rint(images * 255).astype(np.uint8)
    return [Image.fromarray(image[..., 0] if image.shape[2] == 1 else image) for image in whole]


def _array(picture: "Image") -> Doubles:
    values = np.asarray(picture, np.float64) / 255
    return values[..., None] if values.ndim == 2 else values
