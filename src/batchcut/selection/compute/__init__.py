"""What the search is computed with: compiled kernels, weights in half precision, and threads."""

from ._centers import add_rows as add_rows
from ._centers import batch_totals as batch_totals
from ._centers import most_similar as most_similar
from ._centers import unit as unit
from ._crew import ALONE as ALONE
from ._crew import Crew as Crew
from ._crew import crew_of as crew_of
from ._half import HalfWeights as HalfWeights
from ._half import PoolWeights as PoolWeights
from ._half import weight_of as weight_of
from ._kernel import kernel as kernel
from ._weight_kernels import exp_nonpositive as exp_nonpositive
from ._weight_kernels import pair_weight as pair_weight
from ._weight_kernels import score_batches as score_batches
from ._weight_kernels import score_batches_fast as score_batches_fast
from ._weight_kernels import sum_weights as sum_weights
from ._weight_kernels import weigh as weigh
from ._weight_kernels import weigh_fast as weigh_fast
from ._window_kernels import walk_windows as walk_windows
from ._window_kernels import window_sizes as window_sizes
