"""Optimal embeddings: in closed form where they are known, by search where they are not; distances to them; descent."""

from ._descent import Descent as Descent
from ._descent import descend as descend
from ._descent import random_embeddings as random_embeddings
from ._measures import asymmetry as asymmetry
from ._measures import distance_to_optimum as distance_to_optimum
from ._measures import non_antipodality as non_antipodality
from ._minimize import Minimum as Minimum
from ._minimize import minimize as minimize
from ._objectives import all_batches as all_batches
from ._objectives import full_batch as full_batch
from ._objectives import over_batches as over_batches
from ._open_case import Agreement as Agreement
from ._open_case import Found as Found
from ._open_case import OpenCase as OpenCase
from ._open_case import configuration_name as configuration_name
from ._open_case import open_case as open_case
from ._open_case import spectrum as spectrum
from ._optima import cross_polytope as cross_polytope
from ._optima import is_cross_polytope as is_cross_polytope
from ._optima import is_equiangular_tight_frame as is_equiangular_tight_frame
from ._optima import is_simplex_etf as is_simplex_etf
from ._optima import optimal_loss as optimal_loss
from ._optima import simplex_etf as simplex_etf

# isort: split
# For our other packages.
from ._descent import Normalize as Normalize
from ._objectives import Objective as Objective
from ._objectives import losses_of_batches as losses_of_batches
from ._objectives import ordered as ordered
from ._objectives import over_all_batches as over_all_batches
from ._threads import one_thread as one_thread

__all__ = [
    "Agreement",
    "Descent",
    "Found",
    "Minimum",
    "OpenCase",
    "all_batches",
    "asymmetry",
    "configuration_name",
    "cross_polytope",
    "descend",
    "distance_to_optimum",
    "full_batch",
    "is_cross_polytope",
    "is_equiangular_tight_frame",
    "is_simplex_etf",
    "minimize",
    "non_antipodality",
    "open_case",
    "optimal_loss",
    "over_batches",
    "random_embeddings",
    "simplex_etf",
    "spectrum",
]
