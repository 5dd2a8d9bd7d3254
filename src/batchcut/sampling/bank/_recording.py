"""What a record changes: rows, when they were recorded, and the running means of cosines; two ways that agree."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from batchcut.sampling._batch import usable
from batchcut.selection import kernel

from ._file import Storage

_SAMPLES_REMEMBERED = 1024
"""By the means: few enough to follow training, many enough for the cosines of one batch not to decide."""

NOTHING = 1e-6
"""The length of a sum of unit rows that says nothing about its direction."""

Rows = NDArray[np.float32]
Numbers = NDArray[np.int64]


def write_plain(kept: Storage, index: Tensor, u: Tensor, v: Tensor, *, momentum: float) -> bool:
    """Writes rows u, v: (b, dim) to places index: (b,), if nothing about them is odd; or nothing, and returns False.

    With a momentum, means of them and of what is there. This compiled way decides nothing, but does in microseconds
    what most records need: float32 on the CPU, all rows usable, and none of the same sample as another.
    """
    if kept.u.device.type != "cpu" or kept.u.dtype != torch.float32:
        return False
    bank = (kept.u.numpy(), kept.v.numpy(), kept.recorded_at.numpy())
    rows = (index.contiguous().numpy(), u.contiguous().numpy(), v.contiguous().numpy())
    return bool(_write_rows(*rows, *bank, int(kept.clock[0]), momentum, kept.cosines.numpy()))


def write_good(kept: Storage, index: Tensor, u: Tensor, v: Tensor, at: Tensor, *, momentum: float) -> Tensor:
    """Keeps of each sample the last good row, without a value that the host would have to wait for.

    With a momentum, means of it and of what is there.

    Rows are for places index: (b,), and were recorded when the clock showed at: (b,). Returns how many were not good.
    """
    good = usable(u) & usable(v)
    refused = (~good).sum()
    last = _last_good(index, good)  # written in parallel, u and v could otherwise be of different rows
    u, v, good, at = u[last], v[last], good[last], at[last]
    seen = kept.recorded_at[index] >= 0
    # Made float32 one by one: autocast to bfloat16 joins no float16.
    olds, news = (torch.cat([a.float(), b.float()]) for a, b in ((kept.u[index], kept.v[index]), (u, v)))
    agreement = cosine_similarity(olds, news).unflatten(0, (2, -1)).mean(dim=0)
    alignment = cosine_similarity(u.float(), v.float())
    kept.cosines[0] = _moved(kept.cosines[0], agreement, good & seen)
    kept.cosines[1] = _moved(kept.cosines[1], alignment, good)
    if momentum:
        means = torch.where(torch.cat([seen, seen])[:, None], mean_of_rows(news, olds, momentum), news)
        u, v = means.to(u.dtype).chunk(2)
    kept.u[index] = torch.where(good[:, None], u, kept.u[index])
    kept.v[index] = torch.where(good[:, None], v, kept.v[index])
    kept.recorded_at[index] = torch.where(good, at, kept.recorded_at[index])
    return refused


def mean_of_rows(new: Tensor, old: Tensor, momentum: float) -> Tensor:
    """The unit rows (b, d) along (1 − μ) new / |new| + μ old / |old|; new itself where the two cancel out."""
    total = (1 - momentum) * normalize(new, dim=1) + momentum * normalize(old, dim=1)
    return torch.where(total.norm(dim=1, keepdim=True) < NOTHING, new, normalize(total, dim=1))


def _moved(mean: Tensor, cosines: Tensor, known: Tensor) -> Tensor:
    """A mean: () moved towards that of those cosines: (b,) that are known: (b,)."""
    count = known.sum()
    new = cosines.where(known, 0.0).sum() / count
    moved = torch.where(mean.isnan(), new, new + torch.exp(-count / _SAMPLES_REMEMBERED) * (mean - new))
    return torch.where(count > 0, moved, mean)


def _last_good(index: Tensor, good: Tensor) -> Tensor:
    """(b,) for each row the place of the last good row with the same index: (b,), or the last, if none is good."""
    order = (2 * index + good).argsort(stable=True)
    return order[torch.searchsorted(index[order], index, right=True) - 1]


@kernel(fastmath={"contract", "nsz", "reassoc"})
def _cosine(x: Rows, y: Rows) -> float:
    """Of two vectors (d,), neither of which is zero."""
    product = xx = yy = np.float32(0)
    for k in range(len(x)):
        product += x[k] * y[k]
        xx += x[k] * x[k]
        yy += y[k] * y[k]
    return float(product / (math.sqrt(xx) * math.sqrt(yy)))


@kernel(fastmath={"contract", "nsz", "reassoc"})
def _is_plain(row: Rows) -> bool:
    """Whether a vector (d,) has a square in float32 that is neither zero nor infinite; NaN has not."""
    total = np.float32(0)
    for k in range(len(row)):
        total += row[k] * row[k]
    return bool(0 < total < math.inf)


@kernel(fastmath={"contract", "nsz", "reassoc"})
def _move_row(row: Rows, new: Rows, momentum: float) -> None:
    """Puts into row: (d,) what `mean_of_rows` makes of it and of new: (d,)."""
    ours = theirs = total = np.float32(0)
    for k in range(len(row)):
        ours += row[k] * row[k]
        theirs += new[k] * new[k]
    kept, taken = np.float32(momentum / math.sqrt(ours)), np.float32((1 - momentum) / math.sqrt(theirs))
    for k in range(len(row)):
        row[k] = kept * row[k] + taken * new[k]
        total += row[k] * row[k]
    length = math.sqrt(total)
    for k in range(len(row)):
        row[k] = new[k] if length < NOTHING else row[k] / length


@kernel(fastmath={"contract", "nsz", "reassoc"})
def _write_rows(
    index: Numbers,
    u: Rows,
    v: Rows,
    to_u: Rows,
    to_v: Rows,
    recorded_at: Numbers,
    clock: int,
    momentum: float,
    means: Rows,
) -> bool:
    """Writes the rows u, v: (b, d) to places index: (b,), and the clock; or nothing, and returns False.

    Compiled, since a step of training may take only a few milliseconds. Nothing is written if a row, or one that is
    there, is not finite or is zero, if its square is beyond float32, or if two have one place. Means: (2,) of cosines,
    agreement and alignment, move as in `_moved`.
    """
    places = np.sort(index)
    for i in range(1, len(places)):
        if places[i] == places[i - 1]:
            return False
    for i in range(len(index)):
        if not (_is_plain(u[i]) and _is_plain(v[i])):
            return False
        place = index[i]
        if recorded_at[place] >= 0 and not (_is_plain(to_u[place]) and _is_plain(to_v[place])):
            return False
    counts, sums = np.zeros(2), np.zeros(2)
    for i in range(len(index)):
        place = index[i]
        if recorded_at[place] >= 0:
            counts[0] += 1
            sums[0] += (_cosine(u[i], to_u[place]) + _cosine(v[i], to_v[place])) / 2
        counts[1] += 1
        sums[1] += _cosine(u[i], v[i])
        if momentum > 0 and recorded_at[place] >= 0:
            _move_row(to_u[place], u[i], momentum)
            _move_row(to_v[place], v[i], momentum)
        else:
            to_u[place], to_v[place] = u[i], v[i]
        recorded_at[place] = clock
    for k in range(2):
        if counts[k]:
            new = sums[k] / counts[k]
            before = new if math.isnan(means[k]) else means[k]
            means[k] = new + math.exp(-counts[k] / _SAMPLES_REMEMBERED) * (before - new)
    return True
