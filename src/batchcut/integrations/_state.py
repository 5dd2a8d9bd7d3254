"""What a checkpoint holds: where the sampler is, and what the bank knows."""

from typing import Any

import torch.distributed as dist

from batchcut.sampling import PlannedBatchSampler


def joined_state(sampler: PlannedBatchSampler, *, epoch: int, position: int) -> dict[str, Any]:
    """The state of a sampler and its bank after so many batches of an epoch; all processes call it together.

    The bank is joined first, so that the state of any one process is that of all. Joining in the middle of an epoch
    changes no later plan: each sample keeps its newest record.
    """
    if sampler.sharding.world > 1 and dist.is_available() and dist.is_initialized():
        sampler.bank.join()
    return {
        "sampler": sampler.state_dict(position=position) | {"epoch": epoch},
        "bank": sampler.bank.state_dict(),
    }


def load_joined_state(sampler: PlannedBatchSampler, state: dict[str, Any]) -> None:
    """Goes on from what `joined_state` gave."""
    sampler.load_state_dict(state["sampler"])
    sampler.bank.load_state_dict(state["bank"])
