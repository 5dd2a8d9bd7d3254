"""Charts: places, ticks and words."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from batchcut.report._svg import Scale, Series, line_chart, mark, number, percent


@pytest.mark.parametrize(
    ("low", "high", "whole", "ticks"),
    [
        (0, 10, False, [0, 2, 4, 6, 8, 10]),
        (0.12, 0.47, False, [0.2, 0.3, 0.4]),
        (2, 4, True, [2, 3, 4]),
        (3, 3, False, [3]),
    ],
)
def test_ticks_are_round_and_within(low: float, high: float, whole: bool, ticks: list[float]) -> None:
    assert Scale(low=low, high=high, start=0, end=1, whole=whole).ticks(5) == pytest.approx(ticks)


def test_a_scale_may_run_upwards() -> None:
    scale = Scale(low=1, high=3, start=100, end=0)
    assert [scale(1), scale(2), scale(3)] == [100, 50, 0]


def test_a_chart_says_what_it_shows_and_draws_each_series() -> None:
    x = np.array([1, 2, 3])
    series = [
        Series(label="a", style=0, x=x, y=x / 10, low=x / 20, high=x / 5),
        Series(label="b", style=1, x=x, y=x / 9, low=x / 9, high=x / 9),
    ]
    drawn = line_chart(series, name="Accuracy & more", summary="a wins.", x_label="step", y_label="<y>")
    root = ET.fromstring(drawn)  # noqa: S314  it is well formed
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Accuracy & more. a wins."
    assert [line.get("class") for line in root.iter("polyline")] == ["line s0", "line s1"]
    assert [band.get("class") for band in root.iter("polygon") if "band" in (band.get("class") or "")] == ["band s0"]


def test_styles_have_different_marks() -> None:
    assert len({mark(style, 0, 0).replace(f"s{style}", "") for style in range(6)}) == 6


def test_numbers_are_short() -> None:
    values = (0.123456, 12345.6, 3.0, float("nan"))
    assert [number(value) for value in values] == ["0.123", "12,346", "3", "–"]
    assert (percent(0.4567), percent(float("nan"))) == ("45.7 %", "–")
