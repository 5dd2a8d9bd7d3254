"""What several processes do together."""

import torch
import torch.distributed as dist
from torch import Tensor

from batchcut._errors import invalid

_ROWS_AT_ONCE = 65_536


def many_processes() -> bool:
    """Whether there is a process group of more than one process."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def check_same(argument: str, numbers: tuple[int, ...], like: Tensor, group: dist.ProcessGroup | None) -> None:
    """Refuses, on all processes, numbers that are not the same on all of them; to go on would crash the processes."""
    mine = torch.tensor(numbers, device=_device(group, like))
    ends = torch.cat([mine, -mine])
    dist.all_reduce(ends, op=dist.ReduceOp.MAX, group=group)
    high, low = ends[: len(numbers)], -ends[len(numbers) :]
    if not torch.equal(high, low):
        raise invalid(argument, "be the same in all processes", f"{numbers} here, and up to {tuple(high.tolist())}")


def newest_of_all(recorded_at: Tensor, group: dist.ProcessGroup | None) -> tuple[Tensor, Tensor]:
    """The newest record of each sample in any process, (n,), and which of them are those of this process, (n,).

    Each sample has one owner: of records equally new, that of the lowest rank.
    """
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    mine = recorded_at * world + (world - 1 - rank)
    newest = mine.to(_device(group, mine), copy=True)
    dist.all_reduce(newest, op=dist.ReduceOp.MAX, group=group)
    newest = newest.to(mine.device)
    return newest.div(world, rounding_mode="floor"), newest == mine


def take_from_owners(rows: Tensor, mine: Tensor, group: dist.ProcessGroup | None) -> None:
    """Writes to rows: (n, d), on all processes, what the owner of each row holds there."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        # All but the owner add zeros. In float32, since not every backend adds float16.
        part = torch.where(mine[block, None], rows[block].float(), 0.0).to(_device(group, rows))
        dist.all_reduce(part, group=group)
        rows[block] = part.to(rows)


def largest_of_all(number: int, like: Tensor, group: dist.ProcessGroup | None) -> int:
    """The largest of a number that each process brings."""
    largest = torch.tensor(number, device=_device(group, like))
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    return int(largest)


def _device(group: dist.ProcessGroup | None, like: Tensor) -> torch.device:
    """Where tensors must be to be sent: NCCL takes those of its own device alone."""
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend(group) == "nccl" else like.device
