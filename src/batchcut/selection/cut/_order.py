"""Step 1, Order: k-means cells of samples, in a chain of nearest neighbours; and batches beside those they are like."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._progress import Progress
from batchcut.selection._inputs import Doubles, Floats, Ints, Pairs
from batchcut.selection.compute import Crew, add_rows, batch_totals, kernel, most_similar, unit
from batchcut.selection.groups import Groups

from . import _tuning as tuning


def similar_order(
    pairs: Pairs,
    samples: Ints,
    batch_size: int,
    rng: np.random.Generator,
    crew: Crew,
    report: Progress,
) -> Ints:
    """The samples in an order of k-means cells, each cell next to a similar one.

    Cells are of u + v. They are many and flat: in high dimension a few coarse cells, or a tree of halves, part
    samples that belong together, since a sample is no nearer to a coarse centre than chance brings it to another.
    """
    count = center_count(len(samples), batch_size)
    drawn = rng.choice(len(samples), min(len(samples), max(tuning.LLOYD_STEPS) * count), replace=False)
    cells = np.full(len(samples), -1)
    x = np.concatenate(crew.map(pairs.sums, _blocks(samples[drawn])))
    centers, cells[drawn] = _k_means(x, count, crew)
    others = np.flatnonzero(cells < 0)
    if len(others):
        cells[others] = _nearest(pairs, samples[others], centers, crew, report)
    rank = np.empty(count, np.int64)
    rank[chain(centers)] = np.arange(count)
    return samples[np.argsort(rank[cells], kind="stable")]


def centers_in_chain(x: Floats, count: int, crew: Crew) -> Floats:
    """`count` k-means centres of rows (n, d) in random order, each next to a similar one.

    Rows beyond 16 for each centre are not looked at.
    """
    centers, _ = _k_means(x, count, crew)
    return np.asarray(centers[chain(centers)])


def nearest_centers(x: Floats, centers: Floats, crew: Crew) -> Ints:
    """(n,) which of the centres (K, d) is nearest to each row of x (n, d), whatever other rows are beside it.

    A product of matrices rounds a row one way or another, by the rows it is multiplied with. Where that could decide,
    the centres in question are compared once more in float64, row by row.
    """
    return np.concatenate(crew.map(lambda rows: _surely_nearest(rows, centers), _blocks(x)))


def _surely_nearest(rows: Floats, centers: Floats) -> Ints:
    half = np.einsum("ij,ij->i", centers, centers, dtype=np.float64) / 2
    closeness = rows @ centers.T
    closeness -= half.astype(np.float32)
    lengths, longest = np.sqrt(np.square(rows).sum(axis=1)), np.sqrt(2 * half.max())
    # Twice what rounding of d products and their sum can do to each of two entries.
    slack = 2 * (rows.shape[1] + 4) * np.finfo(np.float32).eps * longest * (lengths + longest)
    found = closeness.argmax(axis=1)
    _compare_near(rows, centers, half, closeness, slack, found)
    return np.asarray(found)


@kernel(fastmath={"contract", "reassoc"})
def _compare_near(rows: Floats, centers: Floats, half: Doubles, closeness: Floats, slack: Doubles, found: Ints) -> None:
    """Compares x·c − |c|²/2 in float64 for those centres whose entry comes within the slack of the largest one."""
    for i in range(len(rows)):
        least, best = closeness[i, found[i]] - slack[i], -np.inf
        near = 0
        for c in range(len(centers)):
            near += closeness[i, c] >= least
        if near < 2:
            continue
        for c in range(len(centers)):
            if closeness[i, c] >= least:
                exact = -half[c]
                for k in range(rows.shape[1]):
                    exact += np.float64(rows[i, k]) * np.float64(centers[c, k])
                if exact > best:
                    best, found[i] = exact, c


def center_count(count: int, batch_size: int) -> int:
    """How many cells N samples are put in. Large batches need more of them: what comes next repairs small ones only.

    Steps in which batches follow their centres make good what coarse cells have spoilt, but a large batch holds
    several kinds of samples, and its centre says little about any of them.
    """
    most = tuning.MOST_CENTERS
    if count > tuning.MANY:
        fit = tuning.CENTERS_OF_MANY_PER_PLACE * batch_size
        most = min(max(fit, tuning.LEAST_CENTERS_OF_MANY), tuning.MOST_CENTERS_OF_MANY)
    fit = min(3 * batch_size // 4, tuning.SAMPLES_TIMES_PLACES // batch_size)
    return max(1, min(most, count // max(fit, tuning.LEAST_SAMPLES_PER_CENTER)))


def batch_order(pairs: Pairs, batches: Ints, crew: Crew) -> Ints:
    """The rows of `batches` (K, B) in an order in which neighbours have similar centres."""
    return batches[chain(batch_totals(pairs, batches, crew))]


def chain(centers: Floats) -> Ints:
    """A path through all centres (K, d), from each to the most similar one not yet on it.

    Of more than 4,096, each part is chained by itself: a path looks at all pairs.
    """
    paths = []
    for part in short_parts(centers):
        rows = unit(centers[part])
        paths.append(part[_walk(rows @ rows.T)])
    return np.concatenate(paths)


def short_parts(centers: Floats) -> list[Ints]:
    """Parts of the centres (K, d), none of more than 4,096: halves across the principal direction, again and again."""
    parts, whole = [], [np.arange(len(centers))]
    while whole:
        part = whole.pop()
        if len(part) <= tuning.MOST_COMPARED:
            parts.append(part)
            continue
        spread = centers[part] - centers[part].mean(axis=0)
        direction = np.linalg.eigh(spread.T @ spread)[1][:, -1]
        whole += np.array_split(part[np.argsort(spread @ direction, kind="stable")], 2)[::-1]
    return parts


@kernel
def _walk(similarity: Floats) -> Ints:
    count = len(similarity)
    path = np.empty(count, np.int64)
    open_ = np.arange(count)
    at, left = 0, count
    for step in range(count):
        here = open_[at]
        path[step] = here
        left -= 1
        open_[at] = open_[left]
        row, best = similarity[here], np.float32(-np.inf)
        for place in range(left):
            if row[open_[place]] > best:
                best, at = row[open_[place]], place
    return path


def _k_means(x: Floats, count: int, crew: Crew) -> tuple[Floats, Ints]:
    """`count` centres of rows (n, d) in random order, by Lloyd steps on so many per centre, and the cells of the rows.

    The last step has all of them, and the cells are those it began with: another look at each would cost more than it
    brings. By hand, since the k-means of faiss takes three times as long as all of `Cut`.
    """
    centers, cells = x[:count].copy(), np.empty(0, np.int64)
    for per_center in tuning.LLOYD_STEPS:
        rows = x[: per_center * count]
        cells = np.concatenate(crew.map(_nearest_center(centers), _blocks(rows)))
        total, sizes = np.zeros_like(centers), np.bincount(cells, minlength=count)
        add_rows(rows, cells, total)
        filled = sizes > 0
        centers[filled] = total[filled] / sizes[filled, None].astype(np.float32)
    return np.asarray(centers), cells


def _nearest(pairs: Pairs, samples: Ints, centers: Floats, crew: Crew, report: Progress) -> Ints:
    """The centre that is nearest to u + v of each sample."""
    nearest = _nearest_center(centers)
    return np.concatenate(crew.map(lambda block: nearest(pairs.sums(block)), _blocks(samples), report))


def _blocks(rows: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """The rows, some at a time."""
    return [rows[start : start + tuning.CELL_ROWS] for start in range(0, len(rows), tuning.CELL_ROWS)]


def _nearest_center(centers: Floats) -> Callable[[Floats], Ints]:
    """A function that gives the centre nearest to each row."""
    across = np.ascontiguousarray(centers.T)
    offset = np.square(centers).sum(axis=1) / 2

    def nearest(rows: Floats) -> Ints:
        closeness = rows @ across
        closeness -= offset
        return np.asarray(closeness.argmax(axis=1))

    return nearest


def alike_pools(pairs: Pairs, batches: Ints, most: int, crew: Crew) -> list[Ints]:
    """The rows of `batches` (K, B) in pools of at most `most`, the largest pool first.

    The two batches with the most similar centres are joined first, then the next two and the pools that they are in, as
    in Kruskal's spanning tree. What two pools become may have most · s^1.5 batches, where s is the cosine of the two
    centres by which they are joined. So a crowd of batches that are all alike becomes one large pool, in which many
    swaps pay, and batches that have little in common stay in small ones.
    """
    centers = unit(batch_totals(pairs, batches, crew))
    pools: list[Ints] = []
    for part in short_parts(centers):
        root = _join(*_edges(centers[part], crew), len(part), most)
        _, label, sizes = np.unique(root, return_inverse=True, return_counts=True)
        pools += np.split(part[np.argsort(label, kind="stable")], np.cumsum(sizes)[:-1])
    return [batches[pool] for pool in sorted(pools, key=len, reverse=True)]


def _edges(centers: Floats, crew: Crew) -> tuple[Ints, Ints, Floats]:
    """Each of the unit centres (K, d) beside one it is similar to, and how similar; the most similar two first."""
    blocks = [
        np.arange(top, min(len(centers), top + tuning.POOL_ROWS)) for top in range(0, len(centers), tuning.POOL_ROWS)
    ]
    count = min(tuning.POOL_NEIGHBORS + 1, len(centers))  # one of them may be the batch itself
    found = crew.map(lambda rows: most_similar(centers[rows] @ centers.T, count), blocks)
    named, similarity = (np.concatenate([part[k] for part in found]) for k in range(2))
    source, target = np.repeat(np.arange(len(centers)), count), named.ravel()
    order = np.argsort(-similarity.ravel(), kind="stable")
    return source[order], target[order], similarity.ravel()[order]


@kernel
def _join(source: Ints, target: Ints, similarity: Floats, count: int, most: int) -> Ints:
    """(K,) one batch that stands for each pool, after joining along the edges that leave pools small enough."""
    root, size = np.arange(count), np.ones(count, np.int64)
    for edge in range(len(source)):
        a, b = _root_of(root, source[edge]), _root_of(root, target[edge])
        if a != b and size[a] + size[b] <= most * max(similarity[edge], 0) ** tuning.POOL_STEEPNESS:
            root[b] = a
            size[a] += size[b]
    for k in range(count):
        root[k] = _root_of(root, k)
    return root


@kernel
def _root_of(root: Ints, k: int) -> int:
    while root[k] != k:
        root[k] = root[root[k]]
        k = root[k]
    return k


def content_order(pairs: Pairs, samples: Ints, groups: Groups | None) -> Ints:
    """`samples` sorted by how far they lie in a fixed direction: the same samples in any order give the same.

    Rounding of the embeddings moves those alone that lie equally far but for it. Where there is no telling even then,
    bytes and then groups decide. Copies of the same groups are left as they stand: either may be the other.
    """
    rows = np.concatenate([pairs.u[samples], pairs.v[samples]], axis=1)
    bytes_of_rows = rows.view(np.dtype((np.bytes_, rows.shape[1] * rows.itemsize)))[:, 0]
    ranks = np.zeros(len(samples), np.int64) if groups is None else groups.ranks(samples)
    return samples[np.lexsort((ranks, bytes_of_rows, _distance(rows)))]


def _distance(rows: Floats) -> Doubles:
    """(n,) products with a fixed random vector, each a sum over its own row alone: BLAS would round by place."""
    direction = np.random.default_rng(0).standard_normal(rows.shape[1])
    found = np.empty(len(rows))
    for start in range(0, len(rows), tuning.CELL_ROWS):  # since products take twice the memory of the rows
        block = slice(start, start + tuning.CELL_ROWS)
        found[block] = (rows[block] * direction).sum(axis=1)
    return found
