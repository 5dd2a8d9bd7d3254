"""batchcut picks the mini-batches that teach a contrastive model most.

Names are loaded on first use, so that `import batchcut` costs nothing and pulls in no framework.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import data as data
    from . import evaluation as evaluation
    from . import integrations as integrations
    from . import losses as losses
    from . import sampling as sampling
    from . import selection as selection
    from . import theory as theory
    from . import training as training
    from .losses import SogCLR as SogCLR
    from .losses import contrastive_loss as contrastive_loss
    from .losses import full_batch_loss as full_batch_loss
    from .losses import gather as gather
    from .losses import gathered_contrastive_loss as gathered_contrastive_loss
    from .losses import minibatch_loss as minibatch_loss
    from .losses import nt_xent as nt_xent
    from .losses import order_weights as order_weights
    from .losses import ordered_loss as ordered_loss
    from .sampling import EmbeddingBank as EmbeddingBank
    from .sampling import HardestOf as HardestOf
    from .sampling import Indexed as Indexed
    from .sampling import PlannedBatchSampler as PlannedBatchSampler
    from .sampling import Sharding as Sharding
    from .sampling import StreamPlanner as StreamPlanner
    from .selection import BatchPlan as BatchPlan
    from .selection import Cut as Cut
    from .selection import Ordered as Ordered
    from .selection import Shuffle as Shuffle
    from .selection import Spectral as Spectral
    from .selection import pair_weights as pair_weights

__version__ = "0.1.0"

_SUBPACKAGES = frozenset(
    {"data", "evaluation", "integrations", "losses", "sampling", "selection", "theory", "training"}
)
_HOME_OF = {
    "BatchPlan": "selection",
    "Cut": "selection",
    "EmbeddingBank": "sampling",
    "HardestOf": "sampling",
    "Indexed": "sampling",
    "Ordered": "selection",
    "PlannedBatchSampler": "sampling",
    "Sharding": "sampling",
    "Shuffle": "selection",
    "SogCLR": "losses",
    "Spectral": "selection",
    "StreamPlanner": "sampling",
    "contrastive_loss": "losses",
    "full_batch_loss": "losses",
    "gather": "losses",
    "gathered_contrastive_loss": "losses",
    "minibatch_loss": "losses",
    "nt_xent": "losses",
    "order_weights": "losses",
    "ordered_loss": "losses",
    "pair_weights": "selection",
}

__all__ = sorted([*_SUBPACKAGES, *_HOME_OF])


def __getattr__(name: str) -> object:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
