import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from batchcut.paper import Settings
from batchcut.paper._runs import sizes
from batchcut.paper.figures import histograms
from batchcut.paper.figures._histograms import CUT, RANDOM, SC, SC_AUTHORS


def made_up() -> Any:
    easy, hard = np.linspace(1, 2, 20).tolist(), np.linspace(1.8, 3, 20).tolist()
    losses = {RANDOM: easy, SC: hard, SC_AUTHORS: hard, CUT: hard}
    panels = [{"epoch": epoch, "losses": copy.deepcopy(losses)} for epoch in (1, 3)]
    size = {"data": "digits", "title": "digits", "train": 64, "test": 16, "epochs": 3, "width": 4, "seeds": 2}
    return {"size": size, "images": 400, "rows": [{"model": "SGD", "panels": panels}]}


def test_harder_batches_agree() -> None:
    verdict = histograms.judge(made_up())
    assert [finding.agrees for finding in verdict.findings] == [True, True]
    assert "90% after epoch 1, 90% after epoch 3" in verdict.findings[0].here


@pytest.mark.parametrize(("place", "name"), [(0, SC), (1, SC_AUTHORS)])
def test_each_finding_can_come_out_the_other_way(place: int, name: str) -> None:
    data = made_up()
    data["rows"][0]["panels"][1]["losses"][name] = data["rows"][0]["panels"][1]["losses"][RANDOM]
    agreeing = [finding.agrees for finding in histograms.judge(data).findings]
    assert agreeing == [place != 0, place != 1]


def test_a_higher_mean_alone_is_not_enough() -> None:
    data = made_up()
    data["rows"][0]["panels"][0]["losses"][SC] = [1.6] * 20
    assert not histograms.judge(data).findings[0].agrees


def test_losses_are_those_of_the_plans() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=(60, 8)).astype(np.float32)
    losses = histograms.batch_losses(u, u + 0.1 * rng.normal(size=u.shape).astype(np.float32), seed=0)
    assert {name: len(values) for name, values in losses.items()} == dict.fromkeys((RANDOM, SC, SC_AUTHORS, CUT), 3)
    assert np.mean(losses[CUT]) > np.mean(losses[RANDOM])


def test_epochs_shown() -> None:
    size = sizes(Settings(scale="quick"))[0]
    assert histograms.shown_epochs(replace(size, epochs=6)) == [1, 3, 6]
    assert histograms.shown_epochs(replace(size, epochs=1)) == [1]


def test_words_and_tables() -> None:
    data = made_up()
    assert "trained by SGD, epoch 3: random 1.50" in histograms.describe(data)
    assert len(histograms.tables(data)[0].rows) == 2
    assert "400 of the 64" in histograms.caption(data)
    assert len(histograms.draw(data).axes) == 2
