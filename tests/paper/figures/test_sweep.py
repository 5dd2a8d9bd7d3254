import copy
import math
from typing import Any

import pytest

from batchcut.paper import Settings
from batchcut.paper.figures._sweep import describe, judge, run, tables


@pytest.fixture(scope="module")
def data() -> Any:
    return run(Settings(scale="quick"), lambda share: None)


def polygon_losses(corners: int, times: int) -> tuple[float, float]:
    """Both losses of a regular polygon with `times` samples at each corner, U = V, in closed form."""
    n = corners * times
    cosines = [math.cos(2 * math.pi * k / corners) for k in range(corners) for _ in range(times)]
    cosines.remove(1.0)
    full = 2 * math.log1p(sum(math.exp(x - 1) for x in cosines))
    pairs = sum(2 * math.log1p(math.exp(x - 1)) for x in cosines) / (n - 1)
    return full, pairs


def test_minimisers_have_the_losses_of_the_10_gon_and_the_double_pentagon(data: Any) -> None:
    for key, name, polygon in (("full", "10-gon", (10, 1)), ("pairs", "2-fold pentagon", (5, 2))):
        found = data["minimisers"][key]
        assert found["name"] == name
        assert (found["full"], found["pairs"]) == pytest.approx(polygon_losses(*polygon), abs=1e-12)


def test_curves_at_the_optimum_and_opposite_it(data: Any) -> None:
    middle = len(data["angles"]) // 2
    assert data["angles"][middle] == pytest.approx(0, abs=1e-12)
    full, pairs = polygon_losses(10, 1)
    assert (data["full"][middle], data["pairs"][middle]) == pytest.approx((full, pairs), abs=1e-12)
    assert data["full"][0] == pytest.approx(data["full"][-1])
    assert data["full"][0] > full


def test_verdict(data: Any) -> None:
    verdict = judge(data)
    assert [finding.agrees for finding in verdict.findings] == [True, True, False]
    assert "10-gon" in verdict.line
    assert "2-fold pentagon" in verdict.line
    assert "10-gon" in describe(data)
    assert tables(data)[0].rows[1][0] == "2-fold pentagon"


def test_each_finding_can_come_out_the_other_way(data: Any) -> None:
    multiple = copy.deepcopy(data)
    multiple["pairs"] = [value / 3 for value in data["full"]]
    assert not judge(multiple).findings[0].agrees
    apart = copy.deepcopy(data)
    apart["lowest_at"]["pairs"] += 0.002
    assert not judge(apart).findings[1].agrees
    same = copy.deepcopy(data)
    same["minimisers"]["pairs"] = same["minimisers"]["full"]
    assert judge(same).word == "agrees"
