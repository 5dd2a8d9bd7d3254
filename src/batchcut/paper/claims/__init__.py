"""The claims of the paper, one function each, and the bounds and trajectories that they are about.

Importing this registers the claims in the paper's order, and after them our own about the effective batch size.
"""

# isort: off
from . import _optima as _optima
from . import _batches as _batches
from . import _quasiconvexity as _quasiconvexity
from . import _toy as _toy
from . import _smoothness as _smoothness
from . import _convergence as _convergence
from . import _graph as _graph
from . import _effective as _effective

# isort: on
from ._bounds import jensen_bound as jensen_bound
from ._bounds import osgd_bound as osgd_bound
from ._bounds import smoothness as smoothness
from ._check import Check as Check
from ._check import checks as checks
from ._check import labels as labels
from ._check import run_checks as run_checks
from ._toy_trajectory import toy_embeddings as toy_embeddings
from ._toy_trajectory import toy_steps as toy_steps
from ._toy_trajectory import toy_trajectory as toy_trajectory

# isort: split
# For the rest of `paper`.
from ._check import OURS as OURS
from ._toy_trajectory import LIMIT as LIMIT
from ._toy_trajectory import METHODS as METHODS
from ._toy_trajectory import Method as Method

__all__ = [
    "Check",
    "checks",
    "jensen_bound",
    "labels",
    "osgd_bound",
    "run_checks",
    "smoothness",
    "toy_embeddings",
    "toy_steps",
    "toy_trajectory",
]
