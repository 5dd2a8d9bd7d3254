"""batchcut picks the mini-batches that teach a contrastive model most.

Names are loaded on first use, so that `import batchcut` costs nothing and pulls in no framework. What is not named here
is in the packages: `batchcut.losses`, `selection`, `sampling`, `scale`, `integrations`, `theory`, `data`,
`evaluation`, `training`, `report`, `demo` and `paper`.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import data as data
    from . import demo as demo
    from . import evaluation as evaluation
    from . import integrations as integrations
    from . import losses as losses
    from . import paper as paper
    from . import report as report
    from . import sampling as sampling
    from . import scale as scale
    from . import selection as selection
    from . import theory as theory
    from . import training as training
    from .losses import SogCLR as SogCLR
    from .losses import contrastive_loss as contrastive_loss
    from .losses import nt_xent as nt_xent
    from .sampling import EmbeddingBank as EmbeddingBank
    from .sampling import Indexed as Indexed
    from .sampling import PlannedBatchSampler as PlannedBatchSampler
    from .sampling import PlannedLoader as PlannedLoader
    from .sampling import Sharding as Sharding
    from .sampling import StreamPlanner as StreamPlanner
    from .selection import BatchPlan as BatchPlan
    from .selection import Cut as Cut
    from .selection import Ordered as Ordered
    from .selection import Shuffle as Shuffle
    from .selection import Spectral as Spectral

__version__ = "0.1.0"

_PACKAGES = frozenset(
    {
        "data",
        "demo",
        "evaluation",
        "integrations",
        "losses",
        "paper",
        "report",
        "sampling",
        "scale",
        "selection",
        "theory",
        "training",
    }
)
_HOME_OF = {
    "BatchPlan": "selection",
    "Cut": "selection",
    "EmbeddingBank": "sampling",
    "Indexed": "sampling",
    "Ordered": "selection",
    "PlannedBatchSampler": "sampling",
    "PlannedLoader": "sampling",
    "Sharding": "sampling",
    "Shuffle": "selection",
    "SogCLR": "losses",
    "Spectral": "selection",
    "StreamPlanner": "sampling",
    "contrastive_loss": "losses",
    "nt_xent": "losses",
}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
