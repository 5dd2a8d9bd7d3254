"""Global contrastive batch sampling: bandwidth minimisation of a thresholded similarity."""

import numpy as np
from benchmarks.rivals._common import Batches, Floats, features, neighbor_graph
from scipy.sparse.csgraph import reverse_cuthill_mckee as scipy_rcm

_NEIGHBORS = 32
_KEPT = 0.5


def reverse_cuthill_mckee(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:  # noqa: ARG001
    """Sachidananda et al. 2023: keep only large similarities, order by reverse Cuthill-McKee, cut into B.

    The similarity is sparse to begin with, 32 neighbours each, of which the upper half survives the threshold.
    """
    graph = neighbor_graph(features(u, v), _NEIGHBORS, mutual=False)
    graph.data[graph.data < np.quantile(graph.data, 1 - _KEPT)] = 0
    graph.eliminate_zeros()
    return np.asarray(scipy_rcm(graph, symmetric_mode=True), np.int64).reshape(-1, batch_size)
