"""Multilevel graph partitioning: METIS on the mutual nearest-neighbour graph, sizes repaired."""

import numpy as np
import pymetis
from benchmarks.rivals._common import Batches, Floats, features, neighbor_graph, repair_sizes

_NEIGHBORS = 32


def metis(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:  # noqa: ARG001
    """METIS (Karypis and Kumar) into N / B parts with the tightest balance it offers, then exact sizes."""
    x = features(u, v)
    graph = neighbor_graph(x, _NEIGHBORS, mutual=True)
    options = pymetis.Options(seed=seed, ufactor=1)
    parts = len(x) // batch_size
    _, labels = pymetis.part_graph(
        parts,
        xadj=graph.indptr,
        adjncy=graph.indices,
        eweights=np.maximum((1000 * graph.data).astype(np.int64), 1),
        options=options,
        recursive=False,
    )
    return repair_sizes(np.asarray(labels, np.int64), x, parts, batch_size)
