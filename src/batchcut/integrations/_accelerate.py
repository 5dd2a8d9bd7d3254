"""Hugging Face accelerate: loaders that it prepares without sharding them a second time."""

from functools import partial
from typing import Any, Literal

from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader

from batchcut._errors import invalid, wrong_type
from batchcut.sampling import PlannedLoader, Sharding


def sharding_of(accelerator: Accelerator, *, mode: Literal["whole", "split"] | None = None) -> Sharding:
    """Which process of an accelerator this is, for `Sharding` arguments.

    Args:
        accelerator: yours.
        mode: "whole", each process takes other batches; or "split", each takes its part of every batch. If left out,
            what the accelerator's `split_batches` says.
    """
    if mode is None:
        mode = "split" if accelerator.split_batches else "whole"
    return Sharding(rank=accelerator.process_index, world_size=accelerator.num_processes, mode=mode)


def prepare_loader(
    accelerator: Accelerator, loader: PlannedLoader, *, mode: Literal["whole", "split"] | None = None
) -> PlannedLoader:
    """Prepares a `PlannedLoader`, in place of `accelerator.prepare(loader)`, and returns it.

    accelerate would deal out the batches of each process once more. Here the sampler alone shares them, with the bank
    joined before each plan; all else is as accelerate does it: devices, gradient accumulation, random states.

    `accelerator.save_state` then holds the plan, the place in the epoch and the bank; after `load_state` a pass over
    the loader gives the remaining batches.

    Args:
        accelerator: yours.
        loader: with the settings of your choice; which process this is, it learns here.
        mode: as in `sharding_of`.
    """
    if not isinstance(loader, PlannedLoader):
        raise wrong_type("loader", "be a PlannedLoader", loader)
    if accelerator.split_batches and mode == "whole":
        raise invalid("mode", "be 'split', as split_batches=True asks", repr(mode))
    loader.share(sharding_of(accelerator, mode=mode))
    loader.through(partial(prepare_data_loader_as_it_is, accelerator))
    accelerator.register_for_checkpointing(loader)
    return loader


def prepare_data_loader_as_it_is(accelerator: Accelerator, loader: DataLoader[Any]) -> DataLoader[Any]:
    """What accelerate makes of a loader whose batch sampler shares its batches already."""
    if accelerator.dispatch_batches:
        raise invalid("dispatch_batches", "be off: each process loads the batches that the sampler gives it", True)
    prepared = prepare_data_loader(
        loader,
        accelerator.device,
        num_processes=1,
        process_index=0,
        put_on_device=accelerator.device_placement,
        rng_types=accelerator.rng_types.copy() if accelerator.rng_types else None,
        dispatch_batches=False,
        non_blocking=accelerator.non_blocking,
    )
    prepared._drop_last = True  # Nothing is repeated to fill a round, and so nothing must be cut from what is gathered.
    prepared._is_accelerate_prepared = True  # So that the accelerator adds it to its loaders as it is.
    accelerator.prepare_data_loader(prepared)
    return prepared  # type: ignore[no-any-return]
