"""The figures of the paper, one module each, and what several of them share."""

from . import _bases as bases
from . import _concept as concept
from . import _histograms as histograms
from . import _sweep as sweep
from . import _toy as toy
from . import _unproven as unproven

__all__ = ["bases", "concept", "histograms", "sweep", "toy", "unproven"]
