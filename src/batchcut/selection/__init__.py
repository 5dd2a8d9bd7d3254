"""Which samples share a batch.

A selector is a frozen record of settings, called as `selector(u, v, batch_size=..., seed=...)` with the embeddings
u, v (N, d) of N positive pairs; it returns a `BatchPlan`. All selectors are interchangeable.
"""

from ._effective import EffectiveSize as EffectiveSize
from ._effective import effective_batch_size as effective_batch_size
from ._ordered import Ordered as Ordered
from ._plan import BatchPlan as BatchPlan
from ._prospects import Prospects as Prospects
from ._prospects import prospects as prospects
from ._request import Request as Request
from ._selector import Selector as Selector
from ._shuffle import Shuffle as Shuffle
from ._spectral import Spectral as Spectral
from ._weights import pair_weights as pair_weights
from .cut import Cut as Cut

__all__ = [
    "BatchPlan",
    "Cut",
    "EffectiveSize",
    "Ordered",
    "Prospects",
    "Request",
    "Selector",
    "Shuffle",
    "Spectral",
    "effective_batch_size",
    "pair_weights",
    "prospects",
]

# For our other packages, and not part of the reference:
from ._cells import LEAST_BATCHES_IN_CELL as LEAST_BATCHES_IN_CELL
from ._cells import MOST_IN_CELL as MOST_IN_CELL
from ._cells import SAMPLES_PER_CENTER as SAMPLES_PER_CENTER
from ._cells import CellPlan as CellPlan
from ._cells import cell_bounds as cell_bounds
from ._cells import cell_starts as cell_starts
from ._cells import join_cells as join_cells
from ._cells import on_threads as on_threads
from ._cells import plan_samples as plan_samples
from ._epoch import exchange_samples as exchange_samples
from ._epoch import random_partition as random_partition
from ._epoch import resting_samples as resting_samples
from ._epoch import used_samples as used_samples
from ._gradient_table import GradientTable as GradientTable
from ._gradient_table import gradient_table as gradient_table
from ._inputs import as_array as as_array
from ._inputs import check_batch_size as check_batch_size
from ._inputs import unit_rows as unit_rows
from ._plan import plan_facts as plan_facts
from ._plan import read_facts as read_facts
from ._plan import typical_batches as typical_batches
from ._plan_checks import check_batches as check_batches
from ._selector import check_selector as check_selector
from ._selector import selector_in_words as selector_in_words
from ._shuffle import shuffled_beside as shuffled_beside
from ._weights import check_temperature as check_temperature
from .compute import crew_of as crew_of
from .compute import kernel as kernel
from .cut import center_count as center_count
from .cut import centers_in_chain as centers_in_chain
from .cut import nearest_centers as nearest_centers
from .groups import Groups as Groups
from .groups import read_groups as read_groups
from .groups import swaps_apart as swaps_apart
from .groups import warn_of_large_groups as warn_of_large_groups
