"""Small pictures for the page: one sheet of thumbnails, and matrices of similarities."""

import base64
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._run import Array

_LARGEST = 48
_STOPS = ((33, 102, 172), (247, 247, 247), (178, 88, 6))
"""Blue for −1, white for 0, brown for 1: told apart also by those who see no red or green."""


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Thumbnails side by side in one picture, left to right, top to bottom.

    Attributes:
        address: the picture as a data URI.
        columns: how many there are in a row.
        rows: how many rows.
    """

    address: str
    columns: int
    rows: int


def thumbnail_sheet(pixels: NDArray[np.uint8]) -> Sheet:
    """Images (n, C, H, W) on one sheet, made smaller where they are larger than 48 pixels."""
    from PIL import Image

    count, channels, height, width = pixels.shape
    scale = min(1.0, _LARGEST / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    columns = max(1, int(np.ceil(np.sqrt(count))))
    rows = -(-count // columns)
    sheet = Image.new("L" if channels == 1 else "RGB", (columns * size[0], rows * size[1]))
    for place, image in enumerate(pixels):
        picture = Image.fromarray(image[0] if channels == 1 else np.ascontiguousarray(image.transpose(1, 2, 0)))
        small = picture if picture.size == size else picture.resize(size, Image.Resampling.BOX)
        sheet.paste(small, (place % columns * size[0], place // columns * size[1]))
    content = io.BytesIO()
    if channels == 1:
        sheet.save(content, "PNG", optimize=True)
        kind = "png"
    else:
        sheet.save(content, "JPEG", quality=80)
        kind = "jpeg"
    return Sheet(address=_address(kind, content.getvalue()), columns=columns, rows=rows)


def similarity_picture(values: Array) -> str:
    """A matrix (n, n) of similarities from −1 to 1 as the data URI of a picture with a pixel for each."""
    from PIL import Image

    low, zero, high = (np.array(stop, float) for stop in _STOPS)
    share = np.clip(np.abs(values), 0, 1)[..., None]
    colors = zero + share * (np.where(values[..., None] < 0, low, high) - zero)
    content = io.BytesIO()
    Image.fromarray(np.rint(colors).astype(np.uint8)).save(content, "PNG", optimize=True)
    return _address("png", content.getvalue())


def _address(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
