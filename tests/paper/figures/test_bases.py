import copy
from typing import Any

import numpy as np
import pytest

from batchcut.paper import ITEMS, Settings
from batchcut.paper.figures import bases
from batchcut.paper.figures._drawing import opposite_first
from batchcut.paper.figures._synthetic import METHODS, NORMALIZE, OSGD, SC, SC_AUTHORS

FINALS = {"SGD": 2.0, OSGD: 0.5, "OSGD, k = N/B": 0.9, SC: 0.7, SC_AUTHORS: 0.6, "Cut": 0.55}


def made_up() -> Any:
    """Data as the paper describes them."""

    def end(distance: float) -> dict[str, Any]:
        return {
            "matrix": np.eye(4).tolist(),
            "distance": dict.fromkeys(NORMALIZE, distance),
            "steps": dict.fromkeys(NORMALIZE, 500),
        }

    def runs(final: float) -> dict[str, Any]:
        return {"distances": [[3.0, final], [3.0, final]], "closest": [0.1, 0.1], "aligned": [1.0, 1.0]}

    rows = [
        {
            "d": d,
            "ends": {"optimum": {"matrix": np.eye(4).tolist()}, "full": end(1e-5), "all": end(1e-4), "sub": end(2.0)},
            "curves": {way: {method: runs(FINALS[method]) for method in METHODS} for way in NORMALIZE},
        }
        for d in (8, 2)
    ]
    return {"n": 4, "steps": [0, 500], "seeds": 2, "most_steps": 1000, "rows": rows}


def test_data_as_in_the_paper_agree() -> None:
    verdict = bases.judge(made_up())
    assert verdict.word == "agrees"
    assert len(verdict.findings) == 10


@pytest.mark.parametrize(("place", "end", "distance"), [(0, "full", 0.02), (0, "all", 0.02), (1, "sub", 1e-3)])
def test_ends_can_disagree(place: int, end: str, distance: float) -> None:
    data = made_up()
    data["rows"][1]["ends"][end]["distance"]["in the loss"] = distance
    agreeing = [finding.agrees for finding in bases.judge(data).findings]
    assert agreeing == [True] * (5 + place) + [False] + [True] * (4 - place)


@pytest.mark.parametrize("method", [OSGD, SC, SC_AUTHORS])
@pytest.mark.parametrize("way", NORMALIZE)
def test_methods_can_disagree(method: str, way: str) -> None:
    data = made_up()
    data["rows"][0]["curves"][way][method]["distances"][1][-1] = 9.0
    failed = [finding for finding in bases.judge(data).findings if not finding.agrees]
    assert [method in finding.paper for finding in failed] == [True]


def test_reasons_follow_from_the_ends() -> None:
    data = made_up()
    curves = data["rows"][0]["curves"]
    for way in NORMALIZE:
        curves[way][SC]["distances"] = [[3.0, 4.0], [3.0, 4.0]]
        curves[way][OSGD]["distances"] = [[3.0, 4.0], [3.0, 4.0]]
    curves["each step"][SC]["closest"] = [0.99, 0.2]
    curves["in the loss"][OSGD]["aligned"] = [0.3, 0.2]
    why = {finding.paper.split("steps ")[1][:2]: finding.why for finding in bases.judge(data).findings[2:4]}
    assert why["SC"].startswith("in 1 of 4 runs two samples have run together")
    assert why["OS"].startswith("in 2 of 4 runs a positive pair has not come together")


def test_a_descent_that_was_cut_short_says_so() -> None:
    data = made_up()
    data["rows"][0]["ends"]["all"] |= {
        "distance": dict.fromkeys(NORMALIZE, 1.0),
        "steps": dict.fromkeys(NORMALIZE, 1000),
    }
    assert "still on its way when it was stopped after 1,000 steps" in bases.judge(data).findings[0].why
    data["rows"][0]["ends"]["all"]["steps"] = dict.fromkeys(NORMALIZE, 900)
    assert "came to rest elsewhere" in bases.judge(data).findings[0].why


def test_words_and_tables() -> None:
    data = made_up()
    assert "SGD 2.00" in bases.describe(data)
    (table,) = bases.tables(data)
    assert table.rows[0] == ("SGD", *["2.000 ± 0.000"] * 4)
    assert "2 seeds" in bases.caption(data)
    bases.draw(data)


def test_labels() -> None:
    labels = [item.label for item in ITEMS]
    assert [f"fig:sim_theorem_base_N_{n}" in labels for n in (4, 8, 16)] == [True, True, True]


def test_opposite_samples_come_side_by_side() -> None:
    gram = np.eye(4)
    gram[0, 3] = gram[3, 0] = gram[1, 2] = gram[2, 1] = -1
    order = opposite_first(gram)
    assert sorted(order) == [0, 1, 2, 3]
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset({0, 3}), frozenset({1, 2})}


@pytest.mark.slow
def test_quick_run_of_four_pairs() -> None:
    seen: list[float] = []
    data = bases.run(4, Settings(scale="quick"), seen.append)
    assert seen[-1] == pytest.approx(1)
    findings = bases.judge(copy.deepcopy(data)).findings
    assert [findings[place].agrees for place in (0, 1, 5, 6)] == [True] * 4
