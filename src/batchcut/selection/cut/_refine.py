"""Step 3, Refine: local search by swap gains within pools of batches; weights once, then swaps, then perturbations."""

from functools import partial
from threading import get_ident

import numpy as np

from batchcut._progress import Progress, silent
from batchcut.selection._inputs import Floats, Ints, Pairs
from batchcut.selection._request import Request
from batchcut.selection._weights import Weighting
from batchcut.selection.compute import ALONE, Crew, PoolWeights, weigh, weigh_fast
from batchcut.selection.groups import Groups

from . import _tuning as tuning
from ._refine_kernels import Indices, Kin, count_meets, disturb, improve, sum_by_batch


def refine_pools(
    request: Request,
    pools: list[Ints],
    rng: np.random.Generator,
    told: Progress,
    *,
    kicks: int = 0,
    half: bool = False,
) -> Ints:
    """All batches after swaps within each pool (m, B), with a random stream of its own for each; see `refine`.

    A pool that is a large part of all is weighed by all threads: else one would be at it when the others have done.
    Progress is told on the caller's thread: the pools that are done, and how far the one is that it is at.
    """
    crew, alone = request.crew, request.crew.alone()
    streams = rng.spawn(len(pools))
    weights = _weigh_large(request, pools, half=half) if crew.several else {}
    caller, done = get_ident(), list[int]()

    def within(share: float) -> None:
        if get_ident() == caller:
            told((len(done) + share) / len(pools))

    def task(k: int) -> Ints:
        known, where = weights.pop(k, None), (request.pairs, pools[k], request.groups, request.weighting)
        found = refine(*where, kicks=kicks, rng=streams[k], crew=alone, told=within, weights=known, half=half)
        done.append(k)
        return found

    def after(_: float) -> None:
        told(len(done) / len(pools))

    return np.concatenate((alone if len(pools) == 1 else crew).map(task, range(len(pools)), after))


def _weigh_large(request: Request, pools: list[Ints], *, half: bool) -> dict[int, PoolWeights]:
    """The weights of each pool, by its number, that has more than a quarter of all pairs within pools."""
    squares = [pool.size**2 for pool in pools]
    large = [k for k, square in enumerate(squares) if tuning.LARGE_POOL * square > sum(squares)]
    pairs, weighting = request.pairs, request.weighting
    weigh = partial(pool_weights, pairs, weighting=weighting, crew=request.crew, shared=True, half=half)
    return {k: weigh(pools[k][pools[k] >= 0]) for k in large}


def refine(
    pairs: Pairs,
    batches: Ints,
    groups: Groups | None,
    weighting: Weighting,
    *,
    kicks: int,
    rng: np.random.Generator,
    crew: Crew = ALONE,
    told: Progress = silent,
    weights: PoolWeights | None = None,
    half: bool = False,
) -> Ints:
    """Returns the rows of a pool (m, B) after swaps between them; the within-batch weight never falls.

    Batches are taken two by two, and the swap that gains most is made until none gains; this is done for all pairs of
    batches until no swap in the pool gains. With `kicks`, the best partition found is then disturbed at random and
    improved again that many times, more often in small pools. It ends soon after the work of `crew` is stopped. `told`
    hears the share that is done, if to weigh, to climb and each kick take equally long. `weights` are those of
    `pool_weights`, where they are known already. In `half` precision, what they round off may be lost.
    """
    if len(batches) == 1:
        told(1.0)
        return batches
    samples = batches[batches >= 0]
    count = len(samples)
    rounds = max(kicks, tuning.SAMPLES_EXPLORED // count) if kicks else 0
    if weights is None:
        weights = pool_weights(pairs, samples, weighting, crew, half=half)
    told(1 / (2 + rounds))
    members, place = _layout(batches)
    kin = kinship(groups, samples, place, len(batches))
    sums = _sums_by_batch(weights, place, len(batches), crew)
    state, least = (members, place, sums, kin), least_gain(sums[:, :count])
    changed = (members, place, sums, kin.meets)
    _climb(weights, state, least, crew)
    for done in range(rounds):
        told((2 + done) / (2 + rounds))
        chosen = rng.integers(0, count, (max(1, count // tuning.KICKED), 2), np.int32)
        before = [array.copy() for array in changed]
        gain = disturb(weights, *state, chosen) + _climb(weights, state, least, crew)
        if gain <= 0:
            for array, old in zip(changed, before, strict=True):
                array[...] = old
    return np.where(members >= 0, samples[members], -1)


def _climb(weights: PoolWeights, state: tuple[Indices, Indices, Floats, Kin], least: np.float32, crew: Crew) -> float:
    """Sweeps over all pairs of batches, until nothing gains; returns the gain."""
    rows = len(state[0])
    total, changed = 0.0, np.ones(rows, np.bool_)
    for _ in range(tuning.CLIMB_SWEEPS):
        gain, now, at = 0.0, np.zeros(rows, np.bool_), np.array([1, 0])
        while at[0] < rows:
            crew.go_on()
            gain += improve(weights, *state, changed, now, at, least, tuning.WEIGHTS_AT_ONCE)
        if gain == 0:
            break
        total, changed = total + gain, now
    return total


def _sums_by_batch(weights: PoolWeights, place: Indices, rows: int, crew: Crew) -> Floats:
    """(m, at least P) the weight of each sample with each batch."""
    sums = np.zeros((rows, weights.shape[1]), np.float32)
    step = max(1, tuning.WEIGHTS_AT_ONCE // len(place))
    for first in range(0, len(place), step):
        crew.go_on()
        sum_by_batch(weights, place, sums, first, min(len(place), first + step))
    return sums


def least_gain(sums: Floats) -> np.float32:
    """The gain below which a swap is not worth making, given weights of samples with batches: small where all are."""
    return np.float32(tuning.LEAST_GAIN * min(np.float32(1), sums.max()))


def pool_weights(
    pairs: Pairs,
    samples: Ints,
    weighting: Weighting,
    crew: Crew = ALONE,
    *,
    shared: bool = False,
    half: bool = False,
) -> PoolWeights:
    """(P, P) weights w(k, l) between the samples of a pool, rows padded.

    They are made some rows at a time, by all threads of the crew, and it ends once the work of the crew is stopped.
    Unless `shared`, they lie in this thread's scratch memory of the crew, for as long as no other pool is weighed.
    If `half`, they are kept in half precision, unless that would round off what matters.
    """
    count = len(samples)
    u, v = pairs.u.take(samples, axis=0), pairs.v.take(samples, axis=0)
    u *= weighting.scale
    positive, bars = weighting.scale * pairs.positive[samples], weighting.bars[samples]
    factors = weighting.factors(positive, bars)
    half = half and factors is not None and weighting.temperature <= tuning.HALF_TEMPERATURE
    weights = _room(crew, count, shared=shared, half=half)

    def part(top: int) -> None:
        rows = slice(top, min(count, top + tuning.TILE_ROWS))
        for left in range(top, count, tuning.TILE_COLUMNS):
            crew.go_on()  # the first touch of so much memory can take a tenth of a second
            columns = slice(left, min(count, left + tuning.TILE_COLUMNS))
            there, back = (_scratch(crew, name, rows.stop - top, columns.stop - left) for name in ("there", "back"))
            np.matmul(u[rows], v[columns].T, out=there)
            np.matmul(v[rows], u[columns].T, out=back)
            if factors is None:
                weigh(there, back, positive, weighting.log_negatives, bars, weights, top, left)
            else:
                weigh_fast(there, back, *factors, weights, top, left)

    crew.map(part, range(0, count, tuning.TILE_ROWS))
    return weights


def _room(crew: Crew, count: int, *, shared: bool, half: bool) -> PoolWeights:
    """Memory for the weights between `count` samples."""
    columns = _padded(count)
    if shared:
        return np.empty((count, columns), np.uint16) if half else np.empty((count, columns), np.float32)
    room = _scratch(crew, "weights", count, columns // 2 if half else columns)
    return np.asarray(room.view(np.uint16)) if half else room


def _padded(count: int) -> int:
    """The length of a row of `count` entries, such that those above each other do not fall on the same cache lines."""
    length = -(-count // tuning.CACHE_LINE) * tuning.CACHE_LINE
    return length + tuning.CACHE_LINE * (length % (16 * tuning.CACHE_LINE) == 0)


def _scratch(crew: Crew, name: str, rows: int, columns: int) -> Floats:
    """Memory (rows, columns) that this thread of the crew uses again."""
    buffer: Floats | None = getattr(crew.scratch, name, None)
    if buffer is None or buffer.size < rows * columns:
        buffer = np.empty(rows * columns, np.float32)
        setattr(crew.scratch, name, buffer)
    return buffer[: rows * columns].reshape(rows, columns)


def _layout(batches: Ints) -> tuple[Indices, Indices]:
    filled = batches >= 0
    members = np.full(batches.shape, -1, np.int32)
    members[filled] = np.arange(filled.sum(), dtype=np.int32)
    rows = np.broadcast_to(np.arange(len(batches), dtype=np.int32)[:, None], batches.shape)
    return members, rows[filled]


def kinship(groups: Groups | None, samples: Ints, place: Indices, rows: int) -> Kin:
    """The groups of each sample within the pool, those with one member there apart, and where their members are."""
    row = np.arange(len(samples), dtype=np.int32)
    if groups is None:
        none = np.empty(0, np.int32)
        return Kin(row, np.zeros(len(samples) + 1, np.int32), none, none, none, np.empty((0, 0), np.int32))
    found = groups.of(samples)
    _, code, sizes = np.unique(found.codes, return_inverse=True, return_counts=True)
    kept = sizes[code] > 1
    codes = (np.cumsum(sizes > 1, dtype=np.int32) - 1)[code[kept]].astype(np.int32)
    owner = np.repeat(row, np.diff(found.starts))[kept]
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(samples)))]).astype(np.int32)
    first = np.concatenate([[0], np.cumsum(sizes[sizes > 1])]).astype(np.int32)
    members = owner[np.argsort(codes, kind="stable")]
    meets = np.zeros((rows, len(samples)), np.int32)
    count_meets(first, members, place, meets)
    return Kin(row, starts, codes, first, members, meets)
