"""k-means cells in a greedy order, cut into batches."""

import faiss
import numpy as np
from benchmarks.rivals._common import Batches, Floats, features, greedy_order

_STEPS = 20


def k_means_greedy_order(u: Floats, v: Floats, batch_size: int, temperature: float, seed: int) -> Batches:  # noqa: ARG001
    """Faiss k-means with one cell per batch; cells follow each other by similarity, and the row is cut into B."""
    x = features(u, v)
    cells = len(x) // batch_size
    clustering = faiss.Kmeans(x.shape[1], cells, niter=_STEPS, seed=seed, spherical=True, min_points_per_centroid=1)
    clustering.train(x)
    labels = clustering.index.search(x, 1)[1].ravel()
    rank = np.empty(cells, np.int64)
    rank[greedy_order(np.asarray(clustering.centroids))] = np.arange(cells)
    return np.argsort(rank[labels], kind="stable").reshape(-1, batch_size)
