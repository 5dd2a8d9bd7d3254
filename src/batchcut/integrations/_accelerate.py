"""Hugging Face accelerate: loaders that it prepares without sharding them a second time."""

from typing import Any, Literal

from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader

from batchcut._errors import invalid, wrong_type
from batchcut.sampling import PlannedBatchSampler, Sharding

from ._state import joined_state, load_joined_state


def sharding_of(accelerator: Accelerator, *, mode: Literal["whole", "split"] | None = None) -> Sharding:
    """Which process of an accelerator this is, for `PlannedBatchSampler(sharding=...)`.

    Args:
        accelerator: yours.
        mode: "whole", each process takes other batches; or "split", each takes its part of every batch. If left out,
            what the accelerator's `split_batches` says.
    """
    if mode is None:
        mode = "split" if accelerator.split_batches else "whole"
    return Sharding(rank=accelerator.process_index, world=accelerator.num_processes, mode=mode)


def prepare_loader(accelerator: Accelerator, loader: DataLoader[Any]) -> DataLoader[Any]:
    """Prepares a loader over a `PlannedBatchSampler`, in place of `accelerator.prepare(loader)`.

    accelerate would deal out the batches of each process once more. Here the sampler alone shares them, with the bank
    joined before each plan; all else is as accelerate does it: devices, `set_epoch`, gradient accumulation,
    `skip_first_batches`.

    `accelerator.save_state` then holds the plan and the bank. After `load_state`, go on as with any loader of
    accelerate: by `skip_first_batches(loader, done)`, or, where the accelerator uses stateful loaders, by itself.

    Args:
        accelerator: yours.
        loader: made with `batch_sampler=PlannedBatchSampler(..., sharding=sharding_of(accelerator))`.
    """
    sampler = _checked_sampler(accelerator, loader)
    prepared = prepare_data_loader(
        loader,
        accelerator.device,
        num_processes=1,
        process_index=0,
        put_on_device=accelerator.device_placement,
        rng_types=accelerator.rng_types.copy() if accelerator.rng_types else None,
        dispatch_batches=False,
        non_blocking=accelerator.non_blocking,
        use_stateful_dataloader=accelerator.use_stateful_dataloader,
    )
    prepared._drop_last = (
        True  # Nothing is repeated to fill a round, and so there is nothing to cut from what is gathered.
    )
    prepared._is_accelerate_prepared = True  # So that the accelerator adds it to its loaders as it is.
    accelerator.prepare_data_loader(prepared)
    accelerator.register_for_checkpointing(_Progress(sampler, prepared))
    return prepared  # type: ignore[no-any-return]


def _checked_sampler(accelerator: Accelerator, loader: DataLoader[Any]) -> PlannedBatchSampler:
    sampler = loader.batch_sampler
    if not isinstance(sampler, PlannedBatchSampler):
        raise wrong_type("loader.batch_sampler", "be a PlannedBatchSampler", sampler)
    if accelerator.dispatch_batches:
        raise invalid("dispatch_batches", "be off: each process loads the batches that the sampler gives it", True)
    here = sharding_of(accelerator)
    if sampler.sharding.mode == "dealt":
        raise invalid(
            "the sampler's sharding", "be 'whole' or 'split', as accelerate deals nothing here", sampler.sharding
        )
    if (sampler.sharding.rank, sampler.sharding.world) != (here.rank, here.world):
        rule = f"be of process {here.rank} of {here.world}, as sharding_of(accelerator) says"
        raise invalid("the sampler's sharding", rule, sampler.sharding)
    if here.mode == "split" and sampler.sharding.mode != "split":
        raise invalid("the sampler's sharding", "split batches, as split_batches=True asks", sampler.sharding)
    return sampler


class _Progress:
    """What `save_state` keeps of a loader: the plan of its epoch, whole, and the bank."""

    def __init__(self, sampler: PlannedBatchSampler, loader: Any) -> None:
        self.sampler = sampler
        self.loader = loader

    def state_dict(self) -> dict[str, Any]:
        """Position 0, since accelerate skips the batches already trained on by itself."""
        # After a whole pass the loader has gone on to the next epoch, and the sampler not yet.
        return joined_state(self.sampler, epoch=max(self.loader.iteration, self.sampler.epoch), position=0)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state, and tells the loader its epoch, which accelerate does not keep."""
        load_joined_state(self.sampler, state)
        self.loader.iteration = self.sampler.epoch
