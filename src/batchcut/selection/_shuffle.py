"""`Shuffle`: batches chosen at random, as in plain SGD."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from batchcut._errors import check_integer, check_positive, invalid

from ._draw import draw_batches
from ._epoch import Leftover, Progress, order_generator
from ._inputs import Ints
from ._parallel import workers
from ._plan import BatchPlan
from ._request import Request, check_choice, check_flag, close_request, open_request
from ._score import Weighting, check_margin
from ._similar import part_similar

_MODES = ("without", "with", "fixed")


@dataclass(frozen=True, kw_only=True)
class Shuffle:
    """Random batches: without replacement, with replacement, or fixed for all epochs.

    - "without": a new random partition each epoch (`alg:sgd_wo_replacement`).
    - "with": independent uniform subsets of B samples, different from each other within each step of
      `per_step` batches (`alg:sgd_w_replacement`, where it is called k).
    - "fixed": one random partition, a function of the seed alone (`thm:ncb-is-necessary2` says why that is not enough).

    Attributes:
        replacement: "without", "with" or "fixed".
        per_step: With replacement: how many different batches make one step.
        steps: With replacement: how many steps the plan holds; None: as many as make N // B batches, at least one.
        temperature: τ, at which losses and weights are reported.
        margin: Pairs whose similarity comes within it of an anchor's own positive count no weight and, in a
            partition, are parted by random swaps where a few tries find room. With replacement, draws stay uniform:
            the margin changes only what the plan reports, its weights and `margin_pairs`.
        normalize: Divide rows by their norm; if False, rows that are not unit vectors are refused.
    """

    replacement: Literal["without", "with", "fixed"] = "without"
    per_step: int = 1
    steps: int | None = None
    temperature: float = 0.1
    margin: float | None = None
    normalize: bool = True

    def __post_init__(self) -> None:
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
        check_positive("temperature", self.temperature)
        check_margin(self.margin)
        check_flag("normalize", self.normalize)

    def __call__(
        self,
        u: object,
        v: object,
        *,
        batch_size: int,
        seed: int = 0,
        epoch: int = 0,
        groups: object = None,
        leftover: Leftover = "rotate",
        progress: Progress | None = None,
    ) -> BatchPlan:
        """Chooses batches of the pairs u: (N, d), v: (N, d); for the arguments see `Selector`."""
        check_integer("epoch", epoch, at_least=0)
        request = open_request(
            u,
            v,
            normalize=self.normalize,
            batch_size=batch_size,
            seed=seed,
            epoch=0 if self.replacement == "fixed" else epoch,
            groups=groups,
            leftover=leftover,
            progress=progress,
        )
        weighting = Weighting(request.batch_size, self.temperature, self.margin)
        drawn = self.replacement == "with"
        batches = self._draw(request) if drawn else request.shuffled()
        if self.margin is not None and not drawn:
            batches = part_similar(request, batches, weighting)
        with workers(1) as crew:
            plan = close_request(request, batches, self, weighting, crew=crew, repeats=drawn)
        return replace(plan, epoch=int(epoch))

    def _draw(self, request: Request) -> Ints:
        samples = np.arange(len(request.pairs))
        steps = self.steps or max(1, len(samples) // (request.batch_size * self.per_step))
        rng = order_generator(request.seed, request.epoch)
        drawn = []
        for step in range(steps):
            drawn.append(draw_batches(samples, request.batch_size, self.per_step, rng, request.codes))
            request.report(step / steps)
        return np.concatenate(drawn)
