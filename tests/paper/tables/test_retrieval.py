import copy
from typing import Any

import pytest

from batchcut.paper._runs import METHODS, OBJECTIVES
from batchcut.paper.tables import retrieval

TOP1 = {
    "simclr": {"SGD": [0.40, 0.41], "OSGD": [0.42, 0.43], "SC": [0.50, 0.51], "Cut": [0.52, 0.53]},
    "sogclr": {"SGD": [0.10, 0.11], "OSGD": [0.13, 0.14], "SC": [0.40, 0.41], "Cut": [0.42, 0.43]},
}


def made_up(task: str = "clean") -> Any:
    """Data in the paper's order."""
    size = {
        "data": "digits",
        "title": "digits",
        "train": 64,
        "test": 16,
        "epochs": 2,
        "width": 4,
        "smallest_crop": 0.4,
        "seeds": 2,
    }
    start = {
        "recipe": "paper-x",
        "command": "batchcut train --recipe paper-x",
        "steps": 2,
        "losses": [1.25, 1.0],
        "batch_size": 4,
        "side": None,
        "seconds": 1.0,
    }
    data: dict[str, Any] = {"task": task, "sets": [{"size": size, "top1": copy.deepcopy(TOP1)}]}
    return data | ({"starts": [start]} if task == "clean" else {"images": 5, "corruptions": ["fog", "snow"]})


@pytest.mark.parametrize("task", ["clean", "corrupted"])
def test_the_papers_order_agrees(task: str) -> None:
    verdict = retrieval.judge(made_up(task))
    assert verdict.word == "agrees"
    assert len(verdict.findings) == 5


@pytest.mark.parametrize(
    ("place", "objective", "method"), [(0, "simclr", "OSGD"), (1, "simclr", "SC"), (3, "sogclr", "SC")]
)
def test_order_can_come_out_the_other_way(place: int, objective: str, method: str) -> None:
    data = made_up()
    data["sets"][0]["top1"][objective][method] = [0.05, 0.06]
    finding = retrieval.judge(data).findings[place]
    assert not finding.agrees
    assert "it came out behind after 2 epochs" in finding.why


def test_a_lead_within_the_noise_is_no_lead() -> None:
    data = made_up()
    data["sets"][0]["top1"]["simclr"]["SC"] = [0.40, 0.43]
    finding = retrieval.judge(data).findings[1]
    assert not finding.agrees
    assert "within its standard error" in finding.why
    assert "+1.0 ± 1.0 points" in finding.here


def test_gain_can_be_larger_with_simclr() -> None:
    data = made_up()
    data["sets"][0]["top1"]["sogclr"]["SC"] = [0.15, 0.16]
    assert [finding.agrees for finding in retrieval.judge(data).findings] == [True] * 4 + [False]


def test_paper_numbers_are_complete() -> None:
    for task in ("clean", "corrupted"):
        assert set(retrieval.PAPER[task]) == {"CIFAR-100", "Tiny ImageNet"}
        for numbers in retrieval.PAPER[task].values():
            assert all(set(numbers[objective]) == {"SGD", "OSGD", "SC"} for objective in OBJECTIVES)


def test_words_and_tables() -> None:
    data = made_up()
    numbers, commands = retrieval.tables(data)
    assert numbers.rows[0] == ("SGD", "40.5 ± 0.7", "10.5 ± 0.7", "46.91", "12.34", "57.88", "16.7")
    assert numbers.rows[3][-1] == "–"
    assert commands.rows[0][2] == "1.250, 1.000"
    assert "CPU scale" in retrieval.caption(data)
    assert "were not given" in retrieval.caption(data)
    assert "SC 50.5 %" in retrieval.describe(data)
    corrupted = made_up("corrupted")
    assert "2 corruptions of the same image" in retrieval.caption(corrupted)
    assert len(retrieval.tables(corrupted)[1].rows) >= 12
    for each in (data, corrupted):
        assert len(retrieval.draw(each).axes) == 3
    assert METHODS[-1] == "Cut"
