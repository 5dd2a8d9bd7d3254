"""What the demo trains: settings that differ in the selector alone, on functions or on digits."""

from dataclasses import replace
from typing import Literal

from batchcut._errors import check_choice
from batchcut.selection import Cut, Ordered, Selector, Shuffle, Spectral
from batchcut.training import (
    Config,
    DataSettings,
    EvaluationSettings,
    KeepingSettings,
    ModelSettings,
    ObjectiveSettings,
    OptimizerSettings,
    SelectionSettings,
    ViewSettings,
    config_of,
    recipe,
)

DemoData = Literal["functions", "digits"]
DATA: tuple[DemoData, ...] = ("functions", "digits")
METHODS = ("Shuffle", "Ordered", "Spectral", "Cut")
FIRST_SEED = {"functions": 200, "digits": 0}
"""What is set for functions was chosen on seeds 0 to 2, and on functions that are in neither part of the demo."""

_CANDIDATES = 10
_POOL, _SMALL_POOL = 40, 4
_FUNCTIONS, _FEW_FUNCTIONS = 6400, 640  # pools of whole batches come out even: of 32 here,
_DIGITS, _FEW_DIGITS = 1280, 192  # and of 16 here


def demo_config(method: str, *, seed: int, data: DemoData = "functions", quick: bool = False) -> Config:
    """The settings of a run; those of different methods differ in the selector alone.

    Ordered SGD keeps one of ten random batches at each step, so that it takes as many steps as the others; spectral
    clustering works in pools of 40 batches, as in the paper.
    """
    check_choice("data", data, DATA)
    settings = _functions(quick=quick) if data == "functions" else _digits(quick=quick)
    steps = (settings.data.train or 0) // settings.batch_size
    temperature = settings.objective.temperature
    selectors: dict[str, Selector] = {
        "Shuffle": Shuffle(temperature=temperature),
        "Ordered": Ordered(k=_CANDIDATES, replacement=True, steps=steps, temperature=temperature),
        "Spectral": Spectral(pool=_SMALL_POOL if quick else _POOL, temperature=temperature),
        "Cut": replace(settings.selection.selector, temperature=temperature),  # type: ignore[type-var]
    }
    return replace(settings, seed=seed, selection=SelectionSettings(selector=selectors[method]))


def _functions(*, quick: bool) -> Config:
    """The recipe for pairs, scored twice an epoch."""
    settings = config_of(recipe("pairs"), source="pairs")
    samples = _FEW_FUNCTIONS if quick else _FUNCTIONS
    return replace(
        settings,
        epochs=2 if quick else settings.epochs,
        data=DataSettings(name="functions", train=samples),
        evaluation=EvaluationSettings(every_steps=samples // settings.batch_size // 2),
        keeping=KeepingSettings(checkpoint_epochs=2, checkpoints=1),
    )


def _digits(*, quick: bool) -> Config:
    """A small task, chosen by looking at how shuffled and cut batches fare on about seven variants of it."""
    return Config(
        epochs=3 if quick else 14,  # what two cores train in less than three minutes
        batch_size=16,
        data=DataSettings(name="digits", train=_FEW_DIGITS if quick else _DIGITS, test=64 if quick else None),
        views=ViewSettings(smallest_crop=0.9),
        model=ModelSettings(encoder="small-resnet", width=4 if quick else 8, projection=64, dim=32),
        objective=ObjectiveSettings(loss="simclr", temperature=0.1),
        selection=SelectionSettings(selector=Cut()),
        optimizer=OptimizerSettings(name="adamw", learning_rate=0.003, weight_decay=1e-4),
        evaluation=EvaluationSettings(draws=2),
        keeping=KeepingSettings(checkpoint_epochs=4, checkpoints=1),
    )
