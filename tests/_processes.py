"""Real processes of one gloo group."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

TIMEOUT = datetime.timedelta(seconds=120)  # a hang becomes a failure


def found_by(world: int, folder: Path, job: Callable[..., Any]) -> list[Any]:
    """What job(rank, world, folder) returned in each of so many processes; they find each other by the folder."""
    spawn(_process, args=(world, str(folder), job), nprocs=world)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(world)]


def meet(rank: int, world: int, folder: str) -> None:
    """Makes this process one of the group."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world, timeout=TIMEOUT)


def _process(rank: int, world: int, folder: str, job: Callable[..., Any]) -> None:
    meet(rank, world, folder)
    torch.save(job(rank, world, folder), f"{folder}/{rank}.pt")
    dist.destroy_process_group()
