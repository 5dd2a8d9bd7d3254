"""What frameworks do to a batch sampler that they do not know, refused with a word on what to do instead."""

import functools
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec

from torch.utils.data import Sampler

from batchcut._errors import invalid

from ._sharding import Sharding

P = ParamSpec("P")

_LOADERS = ("torch", "torchdata", "accelerate")


def check_dealer(batch_sampler: object, sharding: Sharding | None, caller: FrameType | None) -> None:
    """Refuses batches that would be shared twice: by the sampler, and by accelerate, which draws from it.

    accelerate wraps the batch sampler of each loader that it prepares in a `BatchSamplerShard`, which hands on one
    batch in so many, or draws in the first process alone and sends the others their batches. It asks the sampler for
    nothing that would tell. But it is the one that draws, and so among the callers.

    Args:
        batch_sampler: that which is drawn from.
        sharding: of the sampler, None if nobody gave one.
        caller: the frame that called its `__iter__`.
    """
    dealer = _dealer(batch_sampler, caller)
    if dealer is None:
        return
    wraps = hasattr(dealer, "num_processes")
    processes = (dealer if wraps else dealer.state).num_processes
    right = wraps and sharding is not None and (sharding.mode, sharding.world) == ("dealt", processes)
    if processes > 1 and not right:
        rule = (
            f"not share batches that {type(dealer).__name__} deals out to {processes} processes once more: prepare the "
            "loader by batchcut.integrations.prepare_loader(accelerator, loader), not by accelerator.prepare"
        )
        raise invalid("sharding", rule, sharding)


def _dealer(batch_sampler: object, frame: FrameType | None) -> Any:
    """That part of accelerate which shares batches and draws from this sampler, if there is one."""
    while frame is not None and _package(frame) in _LOADERS:
        # Not the locals of other frames: to ask for them may keep them alive.
        one = frame.f_locals.get("self") if _package(frame) == "accelerate" else None
        shares = hasattr(one, "num_processes") or hasattr(one, "state")
        if shares and getattr(one, "batch_sampler", None) is batch_sampler:
            return one
        frame = frame.f_back
    return None


def _package(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def not_made_anew(init: Callable[P, None]) -> Callable[P, None]:
    """Refuses a constructor call by Lightning, which makes batch samplers anew by the arguments of torch's own.

    It does so under DDP, to put its own sampler of samples inside, and for prediction.
    """

    @functools.wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        if "drop_last" in kwargs and any(isinstance(argument, Sampler) for argument in args[1:]):
            raise TypeError(
                "a PlannedBatchSampler cannot be made anew around another sampler, as Lightning tries: set "
                "use_distributed_sampler=False and give the sampler sharding=Sharding(rank=..., world=...), "
                "or train with batchcut.integrations.PlanningCallback and its loader"
            )
        init(*args, **kwargs)

    return checked
