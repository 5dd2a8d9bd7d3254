"""`Shuffle`: batches chosen at random, as in plain SGD; a margin parts what is too similar by random swaps."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from batchcut._errors import check_choice, check_integer, invalid
from batchcut._interrupts import interruptible
from batchcut._random import Stream

from ._inputs import Floats, Ints
from ._plan import BatchPlan
from ._request import Request
from ._selector import Selector
from ._subsets import draw_batches
from .compute import kernel
from .groups import Groups, in_common

_MODES = ("without", "with", "fixed")
_TRIES = 32  # places that a sample with a similar one in its batch tries
_ROWS_AT_ONCE = 16_384


@dataclass(frozen=True, kw_only=True)
class Shuffle(Selector):
    """Random batches: without replacement, with replacement, or fixed for all epochs.

    - "without": a new random partition each epoch (`alg:sgd_wo_replacement`).
    - "with": independent uniform subsets of B samples, different from each other within each step of `per_step`
      batches (`alg:sgd_w_replacement`, where it is called k), unless `groups` leave too few such subsets.
    - "fixed": one random partition, a function of the seed alone (`thm:ncb-is-necessary2` says why that is not enough).
      Left-overs do not rotate: the same samples sit out every epoch.

    Attributes:
        replacement: "without", "with" or "fixed".
        per_step: With replacement: how many different batches make one step.
        steps: With replacement: how many steps the plan holds; None: ⌊N / (B · per_step)⌋, at least one.
        temperature: τ, at which losses and weights are reported. None: that of the loss or the loader, see `Selector`.
        margin: Pairs within it, as in `Cut`, count no weight and, in a partition, are parted by random swaps where a
            few tries find room. With replacement, draws stay uniform: the margin changes only what the plan reports,
            its weights and `margin_pairs`.
    """

    replacement: Literal["without", "with", "fixed"] = "without"
    per_step: int = 1
    steps: int | None = None
    temperature: float | None = None
    margin: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("replacement", self.replacement, _MODES)
        check_integer("per_step", self.per_step, at_least=1)
        if self.steps is not None:
            check_integer("steps", self.steps, at_least=1)
        if self.replacement != "with" and (self.per_step != 1 or self.steps is not None):
            raise invalid(
                "per_step and steps",
                'be left alone unless replacement="with"',
                f"replacement={self.replacement!r}",
            )

    @property
    def is_shuffle(self) -> bool:
        """Whether a new random partition each epoch is all that it gives."""
        return self.replacement == "without" and self.margin is None

    @property
    def covers(self) -> bool:
        """Whether each sample in use is in exactly one batch."""
        return self.replacement != "with"

    def batch_count(self, count: int, batch_size: int) -> int:
        """How many batches of size B a plan of N samples, all of them in use, has."""
        if self.covers:
            return super().batch_count(count, batch_size)
        return (self.steps or max(1, count // (batch_size * self.per_step))) * self.per_step

    def choose(self, request: Request) -> Ints:
        """Draws, or deals a random order; see the class."""
        if not self.covers:
            return self._draw(request)
        if self.replacement == "fixed":
            request = request.at_epoch(0)
        batches = request.shuffled()
        return batches if self.margin is None else part_similar(request, batches)

    def _draw(self, request: Request) -> Ints:
        samples, rng = np.arange(len(request.pairs)), request.generator(Stream.SHUFFLE)
        steps = self.batch_count(len(samples), request.batch_size) // self.per_step
        drawn = []
        for step in range(steps):
            drawn.append(draw_batches(samples, request.batch_size, self.per_step, rng, request.groups))
            request.report(step / steps)
        return np.concatenate(drawn)


def shuffled_beside(plan: BatchPlan, u: object, v: object, *, groups: Groups | None) -> BatchPlan:
    """Random batches of the size, seed, epoch and τ of a plan, to compare it with.

    Args:
        plan: what they stand beside.
        u: (N, d) embeddings.
        v: (N, d) those of the other side.
        groups: what the plan keeps apart, and so do they: a batch of kin is harder than any that may be planned.
    """
    return Shuffle(temperature=plan.temperature)(
        u,
        v,
        batch_size=plan.batch_size,
        seed=plan.seed,
        epoch=plan.epoch,
        groups=groups,
        drop_last=plan.drop_last,
    )


def part_similar(request: Request, batches: Ints) -> Ints:
    """Returns `batches` (K, B) after swaps that part pairs within the margin, where a few tries find room.

    A swap is made if it leaves both samples with fewer similar ones in all and puts no two of a group together.
    """
    if len(batches) < 2:
        return batches
    parted = batches.copy()
    pairs, weighting = request.pairs, request.weighting
    bars = weighting.bars * np.float32(weighting.temperature)
    groups = request.groups or Groups(np.zeros(len(pairs) + 1, np.int64), np.empty(0, np.int64), 0)
    rng = request.generator()
    rows = max(1, _ROWS_AT_ONCE // batches.shape[1])
    for start in range(0, len(batches), rows):
        tries = rng.integers(0, batches.size, (min(rows, len(batches) - start), batches.shape[1], _TRIES))
        interruptible(_part_similar, pairs.u, pairs.v, bars, groups.starts, groups.codes, parted, start, tries)
        request.report(start / len(batches))
    return parted


@kernel(fastmath={"contract", "nsz", "reassoc"})
def _dot(a: Floats, b: Floats) -> np.float32:
    total = np.float32(0)
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@kernel
def _clashes(
    u: Floats,
    v: Floats,
    bars: Floats,
    starts: Ints,
    codes: Ints,
    row: Ints,
    sample: int,
    place: int,
) -> tuple[int, int]:
    """How many groups of a batch are those of `sample`, and how many similar to it, were it at `place`."""
    kin, similar = 0, 0
    for j in range(len(row)):
        other = row[j]
        if j == place or other < 0:
            continue
        kin += in_common(starts, codes, other, sample)
        both = _dot(u[sample], v[other]) + _dot(u[other], v[sample])
        similar += both >= bars[sample] + bars[other]
    return kin, similar


@kernel
def _part_similar(
    u: Floats,
    v: Floats,
    bars: Floats,
    starts: Ints,
    codes: Ints,
    batches: Ints,
    start: int,
    tries: Ints,
) -> None:
    """Tries, for each sample with a similar one in its batch, the places that `tries` (rows, B, T) names."""
    width = batches.shape[1]
    for a in range(start, start + len(tries)):
        for i in range(width):
            x = batches[a, i]
            if x < 0:
                continue
            kin, similar = _clashes(u, v, bars, starts, codes, batches[a], x, i)
            for target in tries[a - start, i]:
                if similar == 0:
                    break
                b, j = target // width, target % width
                y = batches[b, j]
                if a == b or y < 0:
                    continue
                there_kin, there = _clashes(u, v, bars, starts, codes, batches[b], x, j)
                if there >= similar:
                    continue
                y_kin, y_similar = _clashes(u, v, bars, starts, codes, batches[b], y, j)
                back_kin, back = _clashes(u, v, bars, starts, codes, batches[a], y, i)
                if there + back < similar + y_similar and there_kin + back_kin <= kin + y_kin:
                    batches[a, i], batches[b, j] = y, x
                    break
