import math

import numpy as np
import numpy.typing as npt
import pytest

from batchcut.data import CorruptedImages, Images
from batchcut.evaluation import (
    CORRUPTIONS,
    Draws,
    corrupt,
    corrupted_retrieval,
    grouped_retrieval,
    made_corruptions,
    retrieval,
    view_retrieval,
)

Bytes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]


def images(count: int = 12, side: int = 8) -> Images:
    pixels = np.random.default_rng(0).integers(0, 256, (count, 3, side, side), np.uint8)
    return Images("made", pixels, None)


class Noisy:
    """Embeds an image as its pixels plus noise, and keeps what it was called with."""

    def __init__(self, noise: float) -> None:
        self.noise, self.called = noise, list[tuple[int, tuple[int, ...]]]()

    def __call__(self, pixels: Bytes, numbers: tuple[int, ...]) -> tuple[Doubles, Doubles]:
        self.called.append((len(pixels), numbers))
        rng = np.random.default_rng([7, *numbers])
        rows = pixels.reshape(len(pixels), -1) / 255 - 0.5
        u, v = (rows + self.noise * rng.standard_normal(rows.shape) for _ in range(2))
        return u, v


def test_grouped_retrieval_is_retrieval_within_each_group() -> None:
    rng = np.random.default_rng(0)
    u = rng.standard_normal((9, 6, 4))
    v = u + rng.standard_normal(u.shape)
    v[2, 3] = v[2, 4]  # a tie
    found = grouped_retrieval(u, v)
    parts = [retrieval(one, other) for one, other in zip(u, v, strict=True)]
    assert found.count == 6
    for name in ("top1", "top5", "top10", "mrr", "mean_rank"):
        assert getattr(found, name) == pytest.approx(np.mean([getattr(part, name) for part in parts]))
        assert getattr(found.v_to_u, name) == pytest.approx(np.mean([getattr(part.v_to_u, name) for part in parts]))


def test_view_retrieval_draws_and_batches() -> None:
    embed = Noisy(0.4)
    found = view_retrieval(images().pixels, embed, draws=2, batch_size=5)
    assert embed.called == [(5, (0, 0)), (5, (0, 5)), (2, (0, 10)), (5, (1, 0)), (5, (1, 5)), (2, (1, 10))]
    for draw, result in enumerate(found.results):
        parts = [Noisy(0.4)(images().pixels[start : start + 5], (draw, start)) for start in (0, 5, 10)]
        u, v = (np.concatenate(side) for side in zip(*parts, strict=True))
        assert result == retrieval(u, v)


def test_draws_have_mean_and_spread() -> None:
    found = view_retrieval(images(40).pixels, Noisy(1.2), draws=3)
    tops = [result.top1 for result in found.results]
    assert len(set(tops)) > 1
    assert found.mean("top1") == pytest.approx(sum(tops) / 3)
    assert found.spread("top1") == pytest.approx(np.std(tops, ddof=1))
    assert found.as_dict()["top1_spread"] == found.spread("top1")
    assert Draws(found.results[:1]).spread("top1") == 0
    with pytest.raises(ValueError, match=r"score must be one of top1, .*; got 'top2'"):
        found.mean("top2")


def test_corrupted_retrieval_looks_among_corruptions_of_the_same_image() -> None:
    pixels = images(7)
    names = ("brightness", "contrast", "fog")
    corrupted = made_corruptions(pixels, corruptions=names, seed=2)
    embed = Noisy(0.05)
    found = corrupted_retrieval(corrupted, embed, draws=2, batch_size=4)
    assert found.results[0].count == 3
    assert sorted(embed.called)[-1] == (4, (1, 2, 0))
    for draw, result in enumerate(found.results):
        sides = []
        for start in (0, 4):
            parts = [
                Noisy(0.05)(corrupt(pixels.pixels, name, seed=2)[start : start + 4], (draw, number, start))
                for number, name in enumerate(names)
            ]
            sides.append([np.stack(side, axis=1) for side in zip(*parts, strict=True)])
        u, v = (np.concatenate(side) for side in zip(*sides, strict=True))
        wanted = grouped_retrieval(u, v)
        assert result.top1 == pytest.approx(wanted.top1)
        assert result.mean_rank == pytest.approx(wanted.mean_rank)
    assert found.mean("top1") > 0.5


def test_chance_is_one_in_the_number_of_corruptions() -> None:
    corrupted = CorruptedImages("same", CORRUPTIONS, 300, lambda _, rows: images(300, 4).pixels[rows.start : rows.stop])

    def blind(pixels: Bytes, numbers: tuple[int, ...]) -> tuple[Doubles, Doubles]:
        rng = np.random.default_rng(numbers)
        return rng.standard_normal((len(pixels), 6)), rng.standard_normal((len(pixels), 6))

    found = corrupted_retrieval(corrupted, blind)
    assert found.mean("top1") == pytest.approx(1 / 19, abs=4 * math.sqrt(1 / 19 / (2 * 300 * 19)))
    assert found.mean("mean_rank") == pytest.approx(10, abs=0.3)


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[float] = []
    corrupted = made_corruptions(images(5), corruptions=("fog", "snow"))
    corrupted_retrieval(corrupted, Noisy(0.1), batch_size=2, progress=told.append)
    view_told: list[float] = []
    view_retrieval(images(5).pixels, Noisy(0.1), draws=2, batch_size=2, progress=view_told.append)
    for shares in (told, view_told):
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="corruption must be one of"):
        made_corruptions(images(), corruptions=("rain",))
    with pytest.raises(ValueError, match="draws must be at least 1; got 0"):
        view_retrieval(images().pixels, Noisy(1), draws=0)
    with pytest.raises(ValueError, match=r"u must have shape \(N, M, d\), none of them 0; got \(3, 2\)"):
        grouped_retrieval(np.ones((3, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="embed's first must hold finite numbers"):
        view_retrieval(images().pixels, lambda pixels, _: (np.full((len(pixels), 2), np.nan),) * 2)
