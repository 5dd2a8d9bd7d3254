"""By which embeddings a run plans."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

from batchcut.sampling import mean_of_views
from batchcut.selection import Cut, Ordered, Shuffle
from batchcut.training import ObjectiveSettings, SelectionSettings, train
from batchcut.training._batches import Batches

from ._runs import image_config, pairs_config, plans, selecting, write_pairs

SAMPLES = 96


@pytest.mark.parametrize(("views", "asked"), [(True, True), (True, False), (False, True)])
def test_images_are_planned_by_the_mean_of_their_views_and_pairs_as_they_are(views: bool, asked: bool) -> None:
    selection = SelectionSettings(selector=Cut(margin=None), average_views=asked)
    config = image_config(selection=selection) if views else pairs_config(Path("pairs.npz"), selection=selection)
    batches = Batches(config, samples=SAMPLES, device=torch.device("cpu"), rank=0, world_size=1, views=views)
    random = torch.Generator().manual_seed(0)
    u, v = (normalize(torch.randn(SAMPLES, config.model.dim, generator=random), dim=1) for _ in range(2))
    batches.bank.record(torch.arange(SAMPLES), u, v)
    epoch = batches.of_epoch(1, lambda _: None)
    if views and asked:
        u = v = mean_of_views(u, v)
    how: dict[str, Any] = {"batch_size": config.batch_size, "seed": config.seed, "epoch": 1}
    assert epoch.plan is not None
    assert epoch.plan.mean_loss == pytest.approx(Cut(margin=None)(u, v, **how).mean_loss, rel=1e-5)
    assert epoch.shuffled_loss == pytest.approx(Shuffle()(u, v, **how).mean_loss, rel=1e-5)


def test_a_selector_takes_the_temperature_of_the_objective(tmp_path: Path) -> None:
    objective = ObjectiveSettings(loss="infonce", temperature=0.05)
    path = write_pairs(tmp_path / "pairs.npz")
    for selector, expected in ((Cut(), 0.05), (Cut(temperature=0.3), 0.3)):
        config = pairs_config(path, objective=objective, selection=selecting(selector), epochs=2)
        train(config, tmp_path / str(expected))
        assert {plan.temperature for plan in plans(tmp_path / str(expected))} == {expected}


@pytest.mark.parametrize("selector", [Cut(), Ordered(k=3, q=2), Shuffle()])
@pytest.mark.parametrize("first", [0, 1, 3, 9])
def test_steps_of_a_run_of_any_length(selector: Any, first: int) -> None:
    for epochs in (1, 2, 3, 5, 10**15):
        config = pairs_config(Path("pairs.npz"), selection=selecting(selector, shuffled_epochs=first), epochs=epochs)
        batches = Batches(config, samples=SAMPLES, device=torch.device("cpu"), rank=0, world_size=1, views=False)
        for accumulate in (1, 5):
            each = [-(-batches.sampler.length_of(epoch) // accumulate) for epoch in range(min(epochs, 20))]
            assert batches.steps(accumulate) == sum(each) + (epochs - len(each)) * each[-1]


def test_plans_made_ahead_are_from_the_bank() -> None:
    rule = "be 0 with planned_from = 'pass', which is a pass between two epochs"
    with pytest.raises(ValueError, match=rf"^selection\.plan_ahead must {rule}; got 0\.1$"):
        SelectionSettings(planned_from="pass", plan_ahead=0.1)
    with pytest.raises(ValueError, match=r"^selection\.plan_ahead must be at least 0 and below 1; got 1\.0$"):
        SelectionSettings(plan_ahead=1.0)


def test_the_last_epoch_begins_no_further_plan() -> None:
    config = pairs_config(Path("pairs.npz"), selection=SelectionSettings(plan_ahead=0.5), epochs=2)
    batches = Batches(config, samples=SAMPLES, device=torch.device("cpu"), rank=0, world_size=1, views=False)
    random = torch.Generator().manual_seed(0)
    begun = []
    for epoch in range(2):
        for index in map(torch.from_numpy, batches.of_epoch(epoch, lambda _: None).batches):
            batches.record(index, *torch.randn(2, len(index), config.model.dim, generator=random))
        begun.append("ahead" in batches.state(None)[1])
    assert begun == [True, False]
