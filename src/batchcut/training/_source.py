"""Samples by index, a whole batch at once: views of images, or pairs of features."""

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from batchcut.data import Images, Pairs, Split

from ._settings import DataSettings, ViewSettings
from ._views import views_of

Indices = NDArray[np.int64]


class Source(Protocol):
    """Gives both sides of any samples."""

    random: bool
    inputs: tuple[int, int] | None

    def __len__(self) -> int: ...

    def sides(self, index: Indices, device: torch.device, *numbers: int) -> tuple[Tensor, Tensor]:
        """The two sides of the samples index: (n,), on the device; random ones are a function of the numbers."""


class ImageSource:
    """Two random views of each image.

    Attributes:
        random: whether the sides are drawn anew each time.
        inputs: the widths of the features of the two sides; None for images.
    """

    random = True
    inputs: tuple[int, int] | None = None

    def __init__(self, images: Images, views: ViewSettings) -> None:
        self.pixels = images.pixels
        self.views = views_of(views)

    def __len__(self) -> int:
        return len(self.pixels)

    def sides(self, index: Indices, device: torch.device, *numbers: int) -> tuple[Tensor, Tensor]:
        """See `Source`."""
        images = torch.from_numpy(self.pixels[index]).to(device)
        x, y = self.views(torch.cat([images, images]), *numbers).chunk(2)
        return x, y


class PairSource:
    """The two sides of pairs of features, as they are; for the attributes see `ImageSource`."""

    random = False

    def __init__(self, pairs: Pairs) -> None:
        self.u, self.v = pairs.u, pairs.v
        self.inputs: tuple[int, int] | None = (int(self.u.shape[1]), int(self.v.shape[1]))

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
        return PairSource(Pairs(name=part.name, u=part.u[:most], v=part.v[:most]))
    labels = None if part.labels is None else part.labels[:most]
    return ImageSource(Images(name=part.name, pixels=part.pixels[:most], labels=labels), views)
