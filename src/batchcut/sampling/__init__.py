"""Plans as batches for any training loop, on one process or many, resumed exactly."""

from ._distributed import Sharding as Sharding
from ._indexed import Indexed as Indexed
from ._indexed import IndexedCollate as IndexedCollate
from ._loader import PlannedLoader as PlannedLoader
from ._loader import PlanSettings as PlanSettings
from ._sampler import PlannedBatchSampler as PlannedBatchSampler
from ._streams import HardestOf as HardestOf
from ._streams import StreamPlanner as StreamPlanner
from .bank import EmbeddingBank as EmbeddingBank
from .bank import ShardedBank as ShardedBank
from .bank import mean_of_views as mean_of_views

# isort: split
# For frameworks, which find it in `PlannedBatchSampler.sampler`.
from ._pass import EpochSampler as EpochSampler

# isort: split
# For our trainings and integrations.
from ._figures import figures_of as figures_of
from ._figures import figures_of_plan as figures_of_plan
from ._figures import shuffled_loss as shuffled_loss
from .bank import momentum_for as momentum_for

# isort: split
# For sets in files, of which a bank may be one.
from .bank import bank_rows as bank_rows
from .bank import is_bank as is_bank

__all__ = [
    "EmbeddingBank",
    "HardestOf",
    "Indexed",
    "IndexedCollate",
    "PlanSettings",
    "PlannedBatchSampler",
    "PlannedLoader",
    "ShardedBank",
    "Sharding",
    "StreamPlanner",
    "mean_of_views",
]
