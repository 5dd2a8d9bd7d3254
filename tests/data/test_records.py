import numpy as np
import pytest

from batchcut.data import Images, Pairs, Split
from batchcut.data._records import split_rows


@pytest.mark.parametrize(("count", "held_out"), [(10, 2), (57, 11), (50_000, 10_000), (60_000, 10_000)])
def test_split_rows(count: int, held_out: int) -> None:
    train, test = split_rows(count, seed=3)
    assert len(test) == held_out
    assert sorted([*train, *test]) == list(range(count))


def test_too_few_to_split() -> None:
    with pytest.raises(ValueError, match="a set without a test part must hold at least 10 samples to be split; got 9"):
        split_rows(9, seed=0)


IMAGES = Images("x", np.zeros((4, 1, 2, 2), np.uint8), None)
PAIRS = Pairs("x", np.zeros((4, 2)), np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Images("x", np.zeros((4, 2, 2), np.uint8), None), r"pixels must have shape \(N, C, H, W\)"),
        (lambda: Images("x", np.zeros((4, 2, 2, 2), np.uint8), None), r"with C = 1 or 3; got \(4, 2, 2, 2\)"),
        (lambda: Images("x", np.zeros((4, 1, 2, 2)), None), "pixels must hold uint8; got float64"),  # type: ignore[arg-type]
        (lambda: Images("x", IMAGES.pixels, np.zeros(3, np.int64)), "labels must hold one class for each of the 4"),
        (lambda: Images("x", IMAGES.pixels, np.zeros(4)), "labels must hold int64; got float64"),  # type: ignore[arg-type]
        (lambda: Pairs("x", np.zeros((4, 2)), np.zeros((3, 2))), "v must have as many rows as u, 4; got 3"),
        (lambda: Pairs("x", np.zeros(4), np.zeros((4, 2))), r"u must have two dimensions .*; got shape \(4,\)"),
        (lambda: Pairs("x", np.zeros((4, 2)), np.zeros((4, 2), int)), "v must hold floating-point"),
        (lambda: Split(IMAGES, PAIRS), "test must be Images, as train is; got Pairs"),
        (
            lambda: Split(IMAGES, Images("x", np.zeros((4, 3, 2, 2), np.uint8), None)),
            "test must hold images of the size",
        ),
        (lambda: Split(PAIRS, Pairs("x", np.zeros((4, 2)), np.zeros((4, 2)))), r"as wide as train's, \(2, 3\)"),
        (lambda: Split(Images("x", IMAGES.pixels[:1], None), IMAGES), "train must hold at least 2 samples; got 1"),
    ],
)
def test_records_cannot_be_invalid(make: "object", text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        make()  # type: ignore[operator]
