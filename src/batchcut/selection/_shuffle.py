"""`Shuffle`: batches chosen at random, as in plain SGD."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from batchcut._errors import check_choice, check_flag, check_integer, invalid

from ._draw import draw_batches
from ._epoch import order_generator
from ._inputs import Ints
from ._parallel import Workers
from ._request import Request
from ._score import Chosen, Weighting, check_margin, check_temperature
from ._selector import PlanningSelector
from ._similar import part_similar

_MODES = ("without", "with", "fixed")


@dataclass(frozen=True, kw_only=True)
class Shuffle(PlanningSelector):
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
        temperature: τ, at which losses and weights are reported.
        margin: Pairs within it, as in `Cut`, count no weight and, in a partition, are parted by random swaps where a
            few tries find room. With replacement, draws stay uniform: the margin changes only what the plan reports,
            its weights and `margin_pairs`.
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
        check_temperature(self.temperature)
        check_margin(self.margin)
        check_flag("normalize", self.normalize)

    @property
    def repeats(self) -> bool:
        """Whether a sample may be in several batches of the plan."""
        return self.replacement == "with"

    def _choose(self, request: Request, weighting: Weighting, crew: Workers) -> Chosen:  # noqa: ARG002
        if self.repeats:
            return Chosen(self._draw(request))
        if self.replacement == "fixed":
            request = request.at_epoch(0)
        batches = request.shuffled()
        return Chosen(batches if self.margin is None else part_similar(request, batches, weighting))

    def _draw(self, request: Request) -> Ints:
        samples = np.arange(len(request.pairs))
        steps = self.steps or max(1, len(samples) // (request.batch_size * self.per_step))
        rng = order_generator(request.seed, request.epoch)
        drawn = []
        for step in range(steps):
            drawn.append(draw_batches(samples, request.batch_size, self.per_step, rng, request.codes))
            request.report(step / steps)
        return np.concatenate(drawn)
