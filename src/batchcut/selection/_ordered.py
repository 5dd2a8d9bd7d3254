"""`Ordered`: OSGD, the q batches of largest loss among k random ones."""

from dataclasses import dataclass

import numpy as np

from batchcut._errors import check_flag, check_integer, invalid
from batchcut._random import Stream

from ._epoch import batch_count
from ._inputs import Doubles, Ints
from ._request import Request
from ._score import score
from ._selector import Selector
from ._subsets import all_batches, draw_batches

_SCORED_AT_ONCE = 65_536


def largest(losses: Doubles, count: int) -> Ints:
    """The places of the `count` largest losses, largest first; of equal ones the first."""
    return np.argsort(-losses, kind="stable")[:count]


@dataclass(frozen=True, kw_only=True)
class Ordered(Selector):
    """Ordered SGD: at each step, the q of k candidate batches with the largest loss.

    - Without replacement (`alg:osgd_wo_replacement`): the samples are randomly partitioned, and of each k batches in
      turn the q with the largest loss are kept. Batches beyond the last whole k are not used.
    - With replacement (`alg:osgd`): at each step, k different uniform subsets of B samples are drawn, unless `groups`
      leave fewer than k.
    - `exact`: k = C(N, B); the plan holds the q largest of all batches there are. For small N. Groups are counted,
      not parted.

    Samples in no batch that was kept are the plan's left-overs.

    Attributes:
        k: How many candidates a step looks at; None only with `exact`, where it is C(N, B).
        q: How many of them it keeps, at most k.
        replacement: Draw candidates with replacement.
        steps: With replacement: how many steps the plan holds; None: ⌊N / (B · k)⌋, at least one.
        exact: Go through all C(N, B) batches.
        temperature: τ, at which losses are compared. None: that of the loss or the loader, see `Selector`.
    """

    k: int | None = None
    q: int = 1
    replacement: bool = False
    steps: int | None = None
    exact: bool = False
    temperature: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("exact", self.exact)
        check_flag("replacement", self.replacement)
        check_integer("q", self.q, at_least=1)
        if self.exact:
            if self.k is not None or self.replacement or self.steps is not None:
                raise invalid("k, replacement and steps", "be left alone where exact=True", f"k={self.k}")
        else:
            if self.k is None:
                raise invalid("k", "be given unless exact=True", None)
            check_integer("k", self.k, at_least=1)
            if self.q > self.k:
                raise invalid("q", f"be at most k, {self.k}", self.q)
        if self.steps is not None:
            check_integer("steps", self.steps, at_least=1)
            if not self.replacement:
                raise invalid("steps", "be left alone unless replacement=True", self.steps)

    @property
    def covers(self) -> bool:
        """Never: batches that are not kept leave samples out."""
        return False

    def batch_count(self, count: int, batch_size: int) -> int:
        """How many batches of size B are kept of N samples, all of them in use; 0 where there are fewer than k."""
        if self.exact:
            return self.q
        k = self.k or 1
        if not self.replacement:
            return batch_count(count, batch_size) // k * self.q
        return (self.steps or max(1, count // (batch_size * k))) * self.q

    def choose(self, request: Request) -> Ints:
        """Scores candidates and keeps the largest; see the class."""
        if self.exact:
            return self._of_all(request)
        return self._of_drawn(request) if self.replacement else self._of_partition(request)

    def _of_partition(self, request: Request) -> Ints:
        candidates, k = request.shuffled(), self.k or 1
        whole = len(candidates) // k * k
        if whole == 0:
            raise invalid("k", f"be at most the number of batches, {len(candidates)}", k)
        losses = score(request.pairs, candidates[:whole], request.weighting).losses
        kept = [start + largest(losses[start : start + k], self.q) for start in range(0, whole, k)]
        batches = candidates[np.concatenate(kept)]
        return batches[np.argsort(batches[:, -1] < 0, kind="stable")]  # a short batch, if kept, stands last

    def _of_drawn(self, request: Request) -> Ints:
        samples, k = np.arange(len(request.pairs)), self.k or 1
        steps = self.batch_count(len(samples), request.batch_size) // self.q
        rng = request.generator(Stream.SHUFFLE)
        kept = []
        for step in range(steps):
            candidates = draw_batches(samples, request.batch_size, k, rng, request.groups)
            kept.append(candidates[largest(score(request.pairs, candidates, request.weighting).losses, self.q)])
            request.report(step / steps)
        return np.concatenate(kept)

    def _of_all(self, request: Request) -> Ints:
        candidates = all_batches(len(request.pairs), request.batch_size)
        if self.q > len(candidates):
            raise invalid("q", f"be at most C(N, B) = {len(candidates)}", self.q)
        losses = np.empty(len(candidates))
        for start in range(0, len(candidates), _SCORED_AT_ONCE):
            rows = slice(start, start + _SCORED_AT_ONCE)
            losses[rows] = score(request.pairs, candidates[rows], request.weighting).losses
            request.report(start / len(candidates))
        return candidates[largest(losses, self.q)]
