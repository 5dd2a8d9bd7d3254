import copy
import math
from typing import Any

import numpy as np
import pytest

from batchcut.paper import Settings
from batchcut.paper.claims import METHODS
from batchcut.paper.figures import toy
from batchcut.theory import optimal_loss


@pytest.fixture(scope="module")
def data() -> Any:
    return toy.run(Settings(scale="quick"), lambda share: None)


def test_curves_run_from_the_start_to_the_optimum(data: Any) -> None:
    # At θ = ε the four points have products 1, cos 2ε, -1 and -cos 2ε with each other.
    products = [1, math.cos(0.2), -1, -math.cos(0.2)]
    start = 2 * math.log(sum(math.exp(x - 1) for x in products))
    for method in METHODS:
        assert data["curves"][method]["mean"][0] == pytest.approx(start, abs=1e-12)
    assert data["curves"]["OSGD"]["mean"][-1] == pytest.approx(optimal_loss(4, 2), abs=1e-5)


def test_verdict(data: Any) -> None:
    assert toy.judge(data).word == "agrees"
    assert len(toy.tables(data)[0].rows) == len(data["counts"])
    assert "0.2539" in toy.describe(data)


def test_each_finding_can_come_out_the_other_way(data: Any) -> None:
    high = copy.deepcopy(data)
    high["curves"]["SGD"]["mean"][-1] += 0.001
    assert [finding.agrees for finding in toy.judge(high).findings] == [False, True, True]
    slow = copy.deepcopy(data)
    slow["curves"]["OSGD"], slow["curves"]["SGD"] = data["curves"]["SGD"], data["curves"]["OSGD"]
    assert not toy.judge(slow).findings[1].agrees
    ratio = copy.deepcopy(data)
    ratio["counts"][-1]["OSGD"] *= 2
    assert not toy.judge(ratio).findings[2].agrees


def test_a_method_that_never_arrives(data: Any) -> None:
    lost = copy.deepcopy(data)
    lost["counts"][-1]["SGD"] = None
    lost["curves"]["OSGD"]["mean"][-1] = 1.4
    findings = toy.judge(lost).findings
    assert [finding.agrees for finding in findings] == [False, False, False]
    assert "OSGD not reached" in findings[1].here
    assert "not measured" in findings[2].here
    assert toy.tables(lost)[0].rows[-1][2] == "not reached"
    toy.draw(lost)


def test_losses_of_many_runs_at_once() -> None:
    angles = np.array([[math.pi / 4] * 4, [0.0] * 4])
    two_points = 2 * math.log(2 + 2 * math.exp(-2))
    assert toy._losses(angles).tolist() == pytest.approx([optimal_loss(4, 2), two_points])
