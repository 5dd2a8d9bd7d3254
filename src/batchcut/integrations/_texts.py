"""Which rows of a table of texts must not share a batch."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def groups_by_text(rows: Iterable[Sequence[str]]) -> NDArray[np.int64]:
    """(N,) the same number for rows that have a text in common, in any column, directly or by a chain of rows.

    Rows and texts are the nodes of a graph, joined where a row holds a text; a group is a connected component.
    """
    numbers: dict[str, int] = {}
    of_row: list[int] = []
    of_text: list[int] = []
    count = 0
    for row in rows:
        for text in row:
            of_row.append(count)
            of_text.append(numbers.setdefault(text, len(numbers)))
        count += 1
    edges = (np.ones(len(of_row), np.int8), (of_row, np.array(of_text, np.int64) + count))
    graph = coo_array(edges, shape=(count + len(numbers),) * 2)
    labels: NDArray[np.int32] = connected_components(graph, directed=False)[1][:count]
    return labels.astype(np.int64)
