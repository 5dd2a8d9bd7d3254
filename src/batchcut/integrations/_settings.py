"""Settings that every integration hands on to `PlannedBatchSampler`."""

from collections.abc import Callable
from typing import Literal, TypedDict

from batchcut.selection import Selector


class PlanSettings(TypedDict, total=False):
    """How to plan: the arguments of `PlannedBatchSampler` that have nothing to do with the data."""

    selector: Selector | None
    shuffle_batches: bool
    refresh: int
    warmup: int
    progress: Callable[[float], None] | None


class SamplerSettings(PlanSettings, total=False):
    """All arguments of `PlannedBatchSampler` that are the user's to choose, whichever framework trains."""

    seed: int
    groups: object
    leftover: Literal["rotate", "short"]
    average_views: bool
