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
