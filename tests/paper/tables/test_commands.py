import pytest

pytest.importorskip("lightning")

from batchcut.paper import Settings
from batchcut.paper.tables._commands import command, recipes, shortened, starts


def test_there_is_a_recipe_for_each_cell_of_the_tables() -> None:
    cells = {
        f"paper-{data}-{objective}-{method}"
        for data in ("cifar100", "tiny-imagenet")
        for objective in ("simclr", "sogclr")
        for method in ("sgd", "osgd", "sc")
    }
    assert cells < set(recipes())
    assert command("paper-cifar100-simclr-sc").startswith("batchcut train --recipe paper-cifar100-simclr-sc ")
    assert "--corrupted tiny-imagenet-c" in command("paper-tiny-imagenet-simclr-sc", corrupted=True)
    assert "--corrupted cifar100-c" in command("paper-cifar100-simclr-sc", corrupted=True)


def test_shortened_keeps_what_is_the_recipes_own() -> None:
    from batchcut.training import config_of as settings_of
    from batchcut.training import recipe

    for name in recipes():
        config = settings_of(recipe(name), source=name)
        few = shortened(config, Settings())
        assert (few.model, few.objective, few.views) == (config.model, config.objective, config.views)
        assert (few.optimizer.name, few.peak_rate, few.batch_size) == ("lars", config.peak_rate, 32)
        assert type(few.selection.selector) is type(config.selection.selector)
        assert few.selection.planned_from == config.selection.planned_from


def test_recipes_start(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ["paper-cifar100-sogclr-osgd"]
    monkeypatch.setattr("batchcut.paper.tables._commands.recipes", lambda: chosen)
    seen: list[float] = []
    begun = starts(Settings(scale="quick"), seen.append)
    assert [start["recipe"] for start in begun] == chosen
    assert [(start["steps"], len(start["losses"])) for start in begun] == [(2, 2)]
    assert seen == [1.0]
