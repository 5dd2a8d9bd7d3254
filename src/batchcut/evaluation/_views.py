"""Retrieval of views: the other view of an image among all images, or among corruptions of the same image."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from batchcut._errors import check_integer, invalid
from batchcut._progress import Progress, silent
from batchcut.data import CorruptedImages, Images

from ._embeddings import Floats, unit_rows
from ._retrieval import SCORES, Doubles, Retrieval, rank_rows, retrieval, summarize_ranks
from .corruptions import CORRUPTIONS, corrupt

Bytes = npt.NDArray[np.uint8]
Embed = Callable[[Bytes, tuple[int, ...]], tuple[object, object]]
"""Two random views of images (n, C, H, W), embedded: u, v (n, d). The views are a function of the given numbers."""

_AT_ONCE = 256


@dataclass(frozen=True)
class Draws:
    """The results of several draws of views.

    Attributes:
        results: What came out of each draw.
    """

    results: tuple[Retrieval, ...]

    def mean(self, score: str) -> float:
        """The mean of a score, such as "top1", over the draws."""
        return statistics.fmean(self._values(score))

    def spread(self, score: str) -> float:
        """The standard deviation of a score over the draws; 0 of a single one."""
        return statistics.stdev(self._values(score)) if len(self.results) > 1 else 0.0

    def as_dict(self) -> dict[str, float]:
        """Mean and spread of every score, by name, and the number of draws."""
        means = {score: self.mean(score) for score in SCORES}
        return {"draws": len(self.results), **means, **{f"{score}_spread": self.spread(score) for score in SCORES}}

    def _values(self, score: str) -> list[float]:
        if score not in SCORES:
            raise invalid("score", f"be one of {', '.join(SCORES)}", repr(score))
        return [float(getattr(result, score)) for result in self.results]


def view_retrieval(
    pixels: Bytes, embed: Embed, *, draws: int = 1, batch_size: int = _AT_ONCE, progress: Progress | None = None
) -> Draws:
    """Finds each image's other view among those of all images pixels: (N, C, H, W).

    This is `tab:performance_comparison_all`, scored both ways.

    Args:
        pixels: The images.
        embed: Embeds two views of each; called with (draw, first image of the batch).
        draws: How many times views are drawn.
        batch_size: How many images are embedded at a time.
        progress: Called with the share of the work done, from 0 to 1.
    """
    report = _begun(draws, batch_size, progress)
    results = []
    for draw in range(draws):
        parts = []
        for start in range(0, len(pixels), batch_size):
            parts.append(_two_sides(embed, pixels[start : start + batch_size], (draw, start)))
            report((draw + min(1, (start + batch_size) / len(pixels))) / draws)
        u, v = (np.concatenate(side) for side in zip(*parts, strict=True))
        results.append(retrieval(u, v))
    return Draws(tuple(results))


def grouped_retrieval(u: object, v: object) -> Retrieval:
    """How often u_ij finds v_ij among v_i1 … v_iM, and back; u, v: (N, M, d), for N groups of M.

    Ranks and ties are those of `retrieval`, within each group; the averages are over all N · M.
    """
    rows_u, rows_v = _groups("u", u), _groups("v", v)
    there, back = _group_ranks(rows_u, rows_v)
    return Retrieval(count=rows_u.shape[1], u_to_v=summarize_ranks(there), v_to_u=summarize_ranks(back))


def corrupted_retrieval(
    corrupted: CorruptedImages,
    embed: Embed,
    *,
    draws: int = 1,
    batch_size: int = _AT_ONCE,
    progress: Progress | None = None,
) -> Draws:
    """Finds the other view of a corrupted image among views of all corruptions of the same image.

    This is `tab:performance_comparison_corrupted`: for each image, two views are drawn of each of its M corruptions,
    and each first view looks for its own second view among the M second ones, and back. Chance is 1 / M. Views of
    different corruptions are drawn independently, which the paper leaves open.

    Args:
        corrupted: The images under each corruption.
        embed: Embeds two views of each; called with (draw, number of the corruption, first image of the batch).
        draws: As in `view_retrieval`.
        batch_size: As in `view_retrieval`.
        progress: As in `view_retrieval`.
    """
    report = _begun(draws, batch_size, progress)
    starts = range(0, len(corrupted), batch_size)
    ranks: list[list[tuple[Doubles, Doubles]]] = [[] for _ in range(draws)]
    for done, start in enumerate(starts):
        rows = range(start, min(start + batch_size, len(corrupted)))
        sides: list[list[tuple[Floats, Floats]]] = [[] for _ in range(draws)]
        for number, name in enumerate(corrupted.corruptions):
            pixels = corrupted.read(name, rows)  # once for all draws: making or reading it takes longer than a view
            for draw in range(draws):
                sides[draw].append(_two_sides(embed, pixels, (draw, number, start)))
            report((done + (number + 1) / len(corrupted.corruptions)) / len(starts))
        for draw in range(draws):
            u, v = (np.stack(side, axis=1) for side in zip(*sides[draw], strict=True))
            ranks[draw].append(_group_ranks(u, v))
    results = []
    for parts in ranks:
        there, back = (summarize_ranks(np.concatenate(way)) for way in zip(*parts, strict=True))
        results.append(Retrieval(count=len(corrupted.corruptions), u_to_v=there, v_to_u=back))
    return Draws(tuple(results))


def made_corruptions(
    images: Images, *, severity: int = 1, seed: int = 0, corruptions: Sequence[str] = CORRUPTIONS
) -> CorruptedImages:
    """The images under corruptions that are made when they are read; see `corrupt`."""
    for name in corruptions:
        corrupt(images.pixels[:0], name, severity=severity, seed=seed)  # so that a mistake shows here

    def read(corruption: str, rows: range) -> Bytes:
        some = images.pixels[rows.start : rows.stop]
        return corrupt(some, corruption, severity=severity, seed=seed, first=rows.start)

    name = f"{images.name} corrupted here, severity {severity}"
    return CorruptedImages(name, tuple(corruptions), len(images), read)


def _begun(draws: int, batch_size: int, progress: Progress | None) -> Progress:
    """Checks what both tasks take, and returns what to tell the share of the work to."""
    check_integer("draws", draws, at_least=1)
    check_integer("batch_size", batch_size, at_least=1)
    return progress or silent


def _two_sides(embed: Embed, pixels: Bytes, numbers: tuple[int, ...]) -> tuple[Floats, Floats]:
    u, v = embed(pixels, numbers)
    return unit_rows("embed's first", u), unit_rows("embed's second", v)


def _groups(argument: str, values: object) -> Floats:
    array = np.asarray(values)
    if array.ndim != 3 or 0 in array.shape:
        raise invalid(argument, "have shape (N, M, d), none of them 0", array.shape)
    return unit_rows(argument, array.reshape(-1, array.shape[2])).reshape(array.shape)


def _group_ranks(u: Floats, v: Floats) -> tuple[Doubles, Doubles]:
    """(N · M,) ranks of v_ij for u_ij among v_i1 … v_iM, and back; rows are unit vectors."""
    if u.shape != v.shape:
        raise invalid("v", f"have the shape of u, {u.shape}", v.shape)
    similarity = np.matmul(u, v.transpose(0, 2, 1))
    own = np.diagonal(similarity, axis1=1, axis2=2)
    return rank_rows(similarity, own).ravel(), rank_rows(similarity.transpose(0, 2, 1), own).ravel()
