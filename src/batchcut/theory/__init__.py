"""Optima, bounds, and each claim of the paper as a check that can fail."""

from ._configurations import cross_polytope as cross_polytope
from ._configurations import is_cross_polytope as is_cross_polytope
from ._configurations import is_equiangular_tight_frame as is_equiangular_tight_frame
from ._configurations import is_simplex_etf as is_simplex_etf
from ._configurations import simplex_etf as simplex_etf
from ._measures import asymmetry as asymmetry
from ._measures import distance_to_optimum as distance_to_optimum
from ._measures import non_antipodality as non_antipodality
from ._minimise import Minimum as Minimum
from ._minimise import minimise as minimise
from ._objectives import all_batches as all_batches
from ._objectives import full_batch as full_batch
from ._objectives import over_batches as over_batches
from ._open_case import Agreement as Agreement
from ._open_case import Found as Found
from ._open_case import OpenCase as OpenCase
from ._open_case import configuration_name as configuration_name
from ._open_case import open_case as open_case
from ._open_case import spectrum as spectrum
from ._optima import optimal_loss as optimal_loss
