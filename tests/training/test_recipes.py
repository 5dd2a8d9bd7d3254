"""The named settings."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from batchcut.selection import Cut, Ordered, Shuffle, Spectral
from batchcut.training import (
    Config,
    DataSettings,
    KeepingSettings,
    MachineSettings,
    ModelSettings,
    ViewSettings,
    config_of,
    recipe,
    recipe_names,
    train,
)
from batchcut.training._batches import Batches

METHODS = {"sgd": Shuffle, "osgd": Ordered, "sc": Spectral}
CELLS = [(d, o, m) for d in ("cifar100", "tiny-imagenet") for o in ("simclr", "sogclr") for m in METHODS]


def config_named(name: str) -> Config:
    return config_of(recipe(name), source=name)


@pytest.mark.parametrize(("data", "objective", "method"), CELLS)
def test_the_twelve_cells_of_the_table_are_as_in_the_paper(data: str, objective: str, method: str) -> None:
    config = config_named(f"paper-{data}-{objective}-{method}")
    assert (config.data.name, config.objective.loss) == (data, objective)
    assert isinstance(config.selection.selector, METHODS[method])
    assert config.selection.selector.temperature is None  # that of the objective
    assert config.objective.temperature == 0.1
    assert (config.batch_size, config.objective.gamma) == (32, 0.9)
    assert config.peak_rate == pytest.approx(0.075 * 32**0.5)
    optimizer = config.optimizer
    assert (optimizer.name, optimizer.momentum, optimizer.weight_decay) == ("lars", 0.9, 1e-6)
    assert optimizer.warmup_epochs == pytest.approx(config.epochs / 10)
    model = config.model
    assert (model.encoder, model.projection, model.dim, model.zero_init) == ("resnet18", 2048, 128, True)
    if isinstance(config.selection.selector, Spectral):
        assert config.selection.selector.pool == 40
    assert not config.selection.average_views or method == "sgd"
    assert config.evaluation.statistics == 0


@pytest.mark.parametrize(("data", "samples"), [("cifar100", 50_000), ("tiny-imagenet", 100_000)])
def test_every_method_takes_the_steps_of_a_hundred_epochs(data: str, samples: int) -> None:
    for objective in ("simclr", "sogclr"):
        for method in METHODS:
            config = config_named(f"paper-{data}-{objective}-{method}")
            narrow = replace(config, model=replace(config.model, dim=1))  # a small bank will do to count
            batches = Batches(narrow, samples=samples, device=torch.device("cpu"), rank=0, world_size=1, views=True)
            assert batches.steps(accumulate=1) == pytest.approx(100 * (samples // 32), rel=5e-4)


@pytest.mark.parametrize("data", ["cifar100", "tiny-imagenet"])
def test_osgd_chooses_without_replacement_from_a_pass(data: str) -> None:
    for objective in ("simclr", "sogclr"):
        selection = config_named(f"paper-{data}-{objective}-osgd").selection
        assert selection.selector == Ordered(k=1500, q=150, replacement=False)
        assert (selection.planned_from, selection.first_planned) == ("training-pass", 0)


def test_there_is_a_cut_recipe_beside_each_cell() -> None:
    for data, objective, _ in CELLS:
        assert isinstance(config_named(f"{data}-{objective}-cut").selection.selector, Cut)


def test_every_recipe_is_complete() -> None:
    assert len(recipe_names()) == 12 + 4 + 4
    for name in recipe_names():
        assert isinstance(config_named(name), Config)


def test_the_recipes_of_the_paper_are_found_without_its_code() -> None:
    code = (
        "import sys; from batchcut.training import recipe; recipe('paper-cifar100-simclr-sc'); "
        "print('batchcut.paper' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    assert told.stdout.strip() == "False"


def test_an_unknown_recipe_is_refused_with_what_names_them() -> None:
    with pytest.raises(
        ValueError, match=r"recipe must be a name that is known; got 'x'\n`batchcut train --recipe list`"
    ):
        recipe("x")


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"paper-cifar100-{o}-{m}" for o in ("simclr", "sogclr") for m in METHODS])
def test_a_paper_recipe_trains_on_less(name: str, tmp_path: Path) -> None:
    config = config_named(name)
    selector = config.selection.selector
    if isinstance(selector, Ordered):
        selector = replace(selector, k=6, q=2)
    small = replace(
        config,
        epochs=2,
        batch_size=8,
        data=DataSettings(name="digits", train=64, test=16),
        views=ViewSettings(recipe="paper", size=32),
        model=ModelSettings(encoder="resnet18", stem="imagenet", projection=32, dim=16, zero_init=True),
        selection=replace(config.selection, selector=selector),
        keeping=KeepingSettings(log_every=1, embeddings=0),
        machine=MachineSettings(accelerator="cpu"),
    )
    assert train(small, tmp_path / "run").scores["top1"] >= 0
