"""Plans as batches for any training loop, on one process or many, resumed exactly."""

from ._bank import EmbeddingBank as EmbeddingBank
from ._hardest import HardestOf as HardestOf
from ._indexed import Indexed as Indexed
from ._sampler import EpochSampler as EpochSampler
from ._sampler import PlannedBatchSampler as PlannedBatchSampler
from ._sharding import Sharding as Sharding
from ._stream import StreamPlanner as StreamPlanner
from ._views import mean_of_views as mean_of_views
