import copy
from typing import Any

import pytest
import torch

from batchcut.paper import Settings
from batchcut.paper.figures._concept import _turned, describe, judge, run
from batchcut.theory import optimal_loss


@pytest.fixture(scope="module")
def data() -> Any:
    return run(Settings(scale="quick"), lambda share: None)


def test_losses_are_the_optimal_ones(data: Any) -> None:
    assert data["full"]["loss"] == pytest.approx(optimal_loss(4, 3), abs=1e-12)
    assert data["all"]["loss"] == pytest.approx(optimal_loss(4, 3, batch_size=2), abs=1e-12)
    assert data["some"]["loss"] == pytest.approx(optimal_loss(2, 1), abs=1e-12)


def test_verdict(data: Any) -> None:
    assert judge(data).word == "agrees"
    assert "−0.333" in describe(data).replace("-", "−")


def test_each_finding_can_come_out_the_other_way(data: Any) -> None:
    for name, changed in (("full", (False, False, True)), ("all", (True, False, True))):
        other = copy.deepcopy(data)
        other[name]["products"][0][1] += 0.01
        assert tuple(finding.agrees for finding in judge(other).findings) == changed
    skew = copy.deepcopy(data)
    skew["full"]["asymmetry"] = 0.1
    assert not judge(skew).findings[0].agrees
    negative = copy.deepcopy(data)
    negative["some"]["products"] = data["full"]["products"]
    assert not judge(negative).findings[2].agrees


def test_turning_keeps_all_products(data: Any) -> None:
    u, v = torch.tensor(data["some"]["u"]), torch.tensor(data["some"]["v"])
    turned_u, turned_v = (torch.tensor(rows) for rows in _turned(u, v))
    assert torch.allclose(turned_u @ turned_v.T, u @ v.T, atol=1e-5)
    assert turned_u[0].tolist() == pytest.approx([0, 0, 1], abs=1e-5)
