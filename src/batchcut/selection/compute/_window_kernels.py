"""The compiled inner loops of the effective batch size: what random batches of growing size keep of a gradient."""

import numpy as np

from batchcut.selection._inputs import Doubles, Floats, Ints

from ._kernel import kernel


def window_sizes(others: int) -> Ints:
    """Numbers of negatives, two for each octave: 1, 2, 3, 4, 6, 8, 12, … below `others`, and `others` itself."""
    octaves = 2 ** np.arange(others.bit_length())
    sizes = np.concatenate([octaves, 3 * octaves])
    return np.append(np.sort(sizes[sizes < others]), others).astype(np.int64)


@kernel
def walk_windows(
    masses: Floats | Doubles,
    along: Floats,
    own: Ints,
    order: Ints,
    starts: Ints,
    sizes: Ints,
    means: Doubles,
    errors: Doubles,
) -> None:
    """Writes what each anchor keeps, on average, in random batches with each of the `sizes` of negatives.

    A batch S keeps Σ_{j∈S} m_j t_j / Σ_{j∈S} m_j − t_own, from the softmax masses m, (r, N), and the projections t,
    (r, N), of the candidates. The others of each anchor are taken in one random `order` (N,), from a place of its own
    on (`starts`), in all the windows of n in a row that fit: sums of 2n are those of n two by two, so that all sizes
    together cost little more than one, and no small sum is a difference of large ones. `errors` are the variances of
    the means over windows; where there is one window alone, that of the size before.
    """
    others, last = masses.shape[1] - 1, len(sizes) - 1
    single = np.empty((2, others))
    twos, threes = np.empty((2, others)), np.empty((2, others))
    for a in range(len(own)):
        _line_up(masses[a], along[a], own[a], order, starts[a], single)
        mass, moment = np.float64(masses[a, own[a]]), np.float64(masses[a, own[a]]) * along[a, own[a]]
        for k in range(last):
            n = sizes[k]
            sums = twos if n & (n - 1) == 0 else threes
            if n == 1:
                sums[:] = single
            elif n == 3:
                _add_up(single, 3, others // n, sums)
            else:
                _add_up(sums, 2, others // n, sums)
            _average(mass, moment, sums[:, : others // n], means[a, k : k + 1], errors[a, k : k + 1])
            if others // n == 1 and k > 0:
                errors[a, k] = errors[a, k - 1]
        _add_up(single, others, 1, twos)
        _average(mass, moment, twos[:, :1], means[a, last:], errors[a, last:])


@kernel
def _line_up(masses: Floats | Doubles, along: Floats, own: int, order: Ints, start: int, out: Doubles) -> None:
    """Writes masses and mass times projection of all candidates but the anchor's own, in order."""
    place = 0
    for k in range(len(order)):
        j = order[k + start - len(order)] if k + start >= len(order) else order[k + start]
        if j != own:
            out[0, place] = masses[j]
            out[1, place] = np.float64(masses[j]) * along[j]
            place += 1


@kernel
def _add_up(parts: Doubles, size: int, count: int, out: Doubles) -> None:
    """Writes `count` sums of `size` in a row; `out` may be `parts`."""
    for side in range(2):
        for w in range(count):
            total = 0.0
            for k in range(w * size, (w + 1) * size):
                total += parts[side, k]
            out[side, w] = total


@kernel
def _average(mass: float, moment: float, sums: Doubles, mean: Doubles, error: Doubles) -> None:
    """Writes the mean over windows of what is kept, and its variance; none where there is one window."""
    windows, total, squares = sums.shape[1], 0.0, 0.0
    for w in range(windows):
        kept = (moment + sums[1, w]) / (mass + sums[0, w]) - moment / mass
        total += kept
        squares += kept * kept
    mean[0] = total / windows
    error[0] = max(squares / windows - mean[0] ** 2, 0.0) / max(windows - 1, 1)
