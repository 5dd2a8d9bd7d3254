"""What rivals share: neighbours by faiss, a greedy order of centres, and the repair of sizes."""

from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

Floats = npt.NDArray[np.float32]
Batches = npt.NDArray[np.int64]

_EXACT_UP_TO = 50_000


def features(u: Floats, v: Floats) -> Floats:
    """One unit vector per pair, u + v: dot products of these stand for the similarity of pairs."""
    total = u + v
    return np.asarray(total / np.linalg.norm(total, axis=1, keepdims=True), np.float32)


def neighbors(x: Floats, count: int) -> tuple[Floats, Batches]:
    """Similarities and indices (N, count) of nearest neighbours: exact for small N, else IVF with 16 probes."""
    if len(x) <= _EXACT_UP_TO:
        index: Any = faiss.IndexFlatIP(x.shape[1])
    else:
        cells = int(np.sqrt(len(x)))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(x.shape[1]), x.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
        index.train(x[:: max(1, len(x) // (64 * cells))])
        index.nprobe = 16
    index.add(x)
    similarity, found = index.search(x, count + 1)
    own = found == np.arange(len(x))[:, None]
    own[~own.any(axis=1), -1] = True  # among many duplicates a sample may not find itself
    keep = ~own
    return similarity[keep].reshape(len(x), count), found[keep].reshape(len(x), count)


def neighbor_graph(x: Floats, count: int, *, mutual: bool) -> csr_matrix:
    """A symmetric graph (N, N) of nearest neighbours; `mutual` keeps only edges that both ends name."""
    similarity, found = neighbors(x, count)
    rows = np.repeat(np.arange(len(x)), count)
    known = found.ravel() >= 0
    weights = np.maximum(similarity.ravel()[known], 1e-6)
    graph = csr_matrix((weights, (rows[known], found.ravel()[known])), shape=(len(x), len(x)))
    return graph.minimum(graph.T).tocsr() if mutual else graph.maximum(graph.T).tocsr()


def greedy_order(centers: Floats) -> Batches:
    """A path through the centres, from each to the most similar one not yet visited."""
    unit = centers / np.maximum(np.linalg.norm(centers, axis=1, keepdims=True), 1e-12)
    similarity = unit @ unit.T
    path = np.empty(len(centers), np.int64)
    here = 0
    for step in range(len(centers)):
        path[step] = here
        similarity[:, here] = -np.inf
        here = int(similarity[here].argmax())
    return path


def repair_sizes(labels: Batches, x: Floats, count: int, batch_size: int) -> Batches:
    """Moves samples from parts that are too large to the most similar parts with room; returns (count, B)."""
    centers = np.zeros((count, x.shape[1]), np.float32)
    np.add.at(centers, labels, x)
    sizes = np.bincount(labels, minlength=count)
    centers /= np.maximum(sizes, 1)[:, None]
    fit = np.einsum("ij,ij->i", x, centers[labels])
    surplus = np.concatenate(
        [
            members[np.argsort(fit[members])[: len(members) - batch_size]]
            for part in np.flatnonzero(sizes > batch_size)
            for members in [np.flatnonzero(labels == part)]
        ]
        or [np.empty(0, np.int64)]
    )
    room = batch_size - np.minimum(sizes, batch_size)
    repaired = labels.copy()
    for sample in surplus:
        best = np.where(room > 0, centers @ x[sample], -np.inf).argmax()
        repaired[sample] = best
        room[best] -= 1
    return np.argsort(repaired, kind="stable").reshape(count, batch_size)
