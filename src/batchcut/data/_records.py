"""What a data set is: images or pairs of features, in two parts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._errors import invalid, wrong_type

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Features = npt.NDArray[np.floating[Any]]

_TEST_SHARE = 5  # one in so many is for the test,
_MOST_TESTED = 10_000  # but no more than this


@dataclass(frozen=True, eq=False)
class Images:
    """N images of one size.

    Attributes:
        name: What the set is called.
        pixels: (N, C, H, W) uint8; C is 1 (grey) or 3 (red, green, blue).
        labels: (N,) classes counted from 0, or None where none are known.
        note: What was done to files to make all images of one size, in words; empty where nothing was.
    """

    name: str
    pixels: Bytes
    labels: Ints | None
    note: str = ""

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8:
            raise wrong_type("pixels", "hold uint8", self.pixels.dtype.type(0))
        if self.pixels.ndim != 4 or self.pixels.shape[1] not in (1, 3):
            raise invalid("pixels", "have shape (N, C, H, W) with C = 1 or 3", self.pixels.shape)
        if self.labels is not None:
            if self.labels.dtype != np.int64:
                raise wrong_type("labels", "hold int64", self.labels.dtype.type(0))
            if self.labels.shape != (len(self),):
                raise invalid("labels", f"hold one class for each of the {len(self)} images", self.labels.shape)

    def __len__(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        channels, height, width = self.pixels.shape[1:]
        return int(channels), int(height), int(width)

    def take(self, rows: Ints | slice) -> "Images":
        """The images in these rows."""
        return Images(self.name, self.pixels[rows], None if self.labels is None else self.labels[rows], self.note)


@dataclass(frozen=True, eq=False)
class Pairs:
    """N pairs of feature vectors; row i of u and v belong together.

    Attributes:
        name: What the set is called.
        u: (N, d_u) floats, as the file has them: not normalised, possibly memory-mapped.
        v: (N, d_v) floats, likewise; d_v may differ from d_u.
    """

    name: str
    u: Features
    v: Features

    def __post_init__(self) -> None:
        for side, values in (("u", self.u), ("v", self.v)):
            if values.ndim != 2 or values.shape[1] < 1:
                raise invalid(side, "have two dimensions (samples, features)", f"shape {values.shape}")
            if values.dtype.kind != "f":
                raise wrong_type(side, "hold floating-point numbers", values.dtype.type(0))
        if len(self.u) != len(self.v):
            raise invalid("v", f"have as many rows as u, {len(self.u)}", len(self.v))

    def __len__(self) -> int:
        return int(self.u.shape[0])

    def take(self, rows: Ints | slice) -> "Pairs":
        """The pairs in these rows; numbered ones are copied into memory, also where these are mapped."""
        return Pairs(self.name, self.u[rows], self.v[rows])


@dataclass(frozen=True, eq=False)
class Split:
    """A data set in two parts that share no sample: one to learn from, one to be judged by."""

    train: Images | Pairs
    test: Images | Pairs

    def __post_init__(self) -> None:
        for part, values in (("train", self.train), ("test", self.test)):
            if len(values) < 2:
                raise invalid(part, "hold at least 2 samples", len(values))
        if isinstance(self.train, Images) and isinstance(self.test, Images):
            if self.train.shape != self.test.shape:
                raise invalid("test", f"hold images of the size of train, {self.train.shape}", self.test.shape)
        elif isinstance(self.train, Pairs) and isinstance(self.test, Pairs):
            widths = [(int(part.u.shape[1]), int(part.v.shape[1])) for part in (self.train, self.test)]
            if widths[0] != widths[1]:
                raise invalid("test", f"hold features as wide as train's, {widths[0]}", widths[1])
        else:
            raise wrong_type("test", f"be {type(self.train).__name__}, as train is", self.test)


def split_at_random(samples: Images | Pairs, *, seed: int) -> Split:
    """Gives a set that comes without a test part one, by `split_rows`."""
    train, test = split_rows(len(samples), seed=seed)
    return Split(samples.take(train), samples.take(test))


def split_rows(count: int, *, seed: int) -> tuple[Ints, Ints]:
    """Which of N rows are to learn from and which are for the test, both ascending.

    The test part is a fifth of the rows, at most 10,000, drawn by the seed.
    """
    if count < 2 * _TEST_SHARE:
        raise invalid("a set without a test part", f"hold at least {2 * _TEST_SHARE} samples to be split", count)
    order = np.random.default_rng(seed).permutation(count)
    held_out = min(_MOST_TESTED, count // _TEST_SHARE)
    return np.sort(order[held_out:]), np.sort(order[:held_out])
