"""Which samples share a batch.

A selector is a frozen record of settings, called as `selector(u, v, batch_size=..., seed=...)` with the embeddings
u, v (N, d) of N positive pairs; it returns a `BatchPlan`. All selectors are interchangeable.
"""

from . import _compiler as _compiler
from ._cut import Cut as Cut
from ._inputs import group_codes as group_codes
from ._ordered import Ordered as Ordered
from ._partition import batch_count as batch_count
from ._partition import exchange_samples as exchange_samples
from ._partition import is_partition as is_partition
from ._partition import random_partition as random_partition
from ._partition import used_samples as used_samples
from ._plan import BatchPlan as BatchPlan
from ._selector import Selector as Selector
from ._shuffle import Shuffle as Shuffle
from ._spectral import Spectral as Spectral
from ._weights import pair_weights as pair_weights
