import copy
from typing import Any

import numpy as np
import pytest

from batchcut.paper import Settings
from batchcut.paper.figures import unproven


@pytest.fixture(scope="module")
def data() -> Any:
    return unproven.run(Settings(scale="quick"), lambda share: None)


def test_best_relabeling_finds_the_order() -> None:
    random = np.random.default_rng(0)
    wanted = random.normal(size=(6, 6))
    shuffled = random.permutation(6)
    order, distance = unproven.best_relabeling(wanted[np.ix_(shuffled, shuffled)], wanted)
    assert distance == pytest.approx(0, abs=1e-12)
    assert shuffled[order].tolist() == list(range(6))


def test_best_relabeling_of_different_matrices() -> None:
    cross = np.kron(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    _, distance = unproven.best_relabeling(np.eye(4), cross)
    assert distance == pytest.approx(2)


def test_verdict(data: Any) -> None:
    verdict = unproven.judge(data)
    assert [finding.agrees for finding in verdict.findings] == [False, True, True, True]
    assert "square antiprism" in verdict.findings[0].here
    assert "cube" in verdict.findings[0].here


def test_losses_of_the_cube(data: Any) -> None:
    # One antipode, three neighbours and three at the far ends of the faces' diagonals.
    products = [1, -1, *[1 / 3] * 3, *[-1 / 3] * 3]
    cube = data["rows"][0]["columns"]["all"]
    assert cube["full_loss"] == pytest.approx(2 * np.log(np.sum(np.exp(np.array(products) - 1))), abs=1e-9)
    assert cube["pairs_loss"] == pytest.approx(np.mean(2 * np.log1p(np.exp(np.array(products[1:]) - 1))), abs=1e-9)


def test_each_finding_can_come_out_the_other_way(data: Any) -> None:
    same = copy.deepcopy(data)
    for name in ("all", "sub"):
        same["rows"][0]["columns"][name] = same["rows"][0]["columns"]["full"]
    assert [finding.agrees for finding in unproven.judge(same).findings] == [True, False, True, True]
    other = copy.deepcopy(data)
    other["rows"][1]["columns"]["all"]["distance_to_full"] = 0.1
    assert [finding.agrees for finding in unproven.judge(other).findings] == [False, True, False, True]


def test_words(data: Any) -> None:
    assert "cube" in unproven.describe(data)
    assert len(unproven.tables(data)[0].rows) == 6
