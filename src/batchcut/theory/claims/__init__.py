"""The claims of the paper, one function each; importing this registers them in the paper's order."""

# isort: off
from . import _optima as _optima
from . import _batches as _batches
from . import _quasiconvexity as _quasiconvexity
from . import _toy as _toy
from . import _smoothness as _smoothness
from . import _convergence as _convergence
from . import _graph as _graph
