"""Plans in training frameworks. Names are loaded on first use: a framework is imported only where it is used."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._accelerate import prepare_loader as prepare_loader
    from ._accelerate import sharding_of as sharding_of
    from ._lightning import PlanningCallback as PlanningCallback
    from ._sentence_transformers import PlannedTexts as PlannedTexts
    from ._transformers import PlanningMixin as PlanningMixin

_HOME_OF = {
    "PlannedTexts": "sentence_transformers",
    "PlanningCallback": "lightning",
    "PlanningMixin": "transformers",
    "prepare_loader": "accelerate",
    "sharding_of": "accelerate",
}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    framework = _HOME_OF[name]
    try:
        home = importlib.import_module(f"{__name__}._{framework}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("batchcut"):
            raise
        raise ImportError(
            f"{name} needs {framework}, and {error.name} is not installed: "
            'pip install "batchcut[integrations]" brings it'
        ) from error
    value = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
