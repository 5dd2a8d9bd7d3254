"""Which process takes which batch, never guessed, and what several processes do together."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from batchcut._errors import check_integer, invalid

Batch = NDArray[np.int64]

_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """This process, and how the batches of a plan are shared.

    Attributes:
        rank: this process, from 0.
        world_size: how many there are.
        mode: "whole", each process takes other batches; "split", each takes its part of every batch, for losses that
            gather negatives from all processes; or "dealt", each yields the batches of all, in the order in which a
            framework that has wrapped the sampler deals them out, one to each process in turn.
        together: before each plan, join the banks, and let the first process plan for all; needs a process group of
            `world_size` processes. If False, each process plans by itself, which is right only if all banks are equal.
    """

    rank: int = 0
    world_size: int = 1
    mode: Literal["whole", "split", "dealt"] = "whole"
    together: bool = True

    def __post_init__(self) -> None:
        check_integer("world_size", self.world_size, at_least=1)
        check_integer("rank", self.rank, at_least=0, at_most=self.world_size - 1)
        if self.mode not in ("whole", "split", "dealt"):
            raise invalid("mode", "be 'whole', 'split' or 'dealt'", repr(self.mode))

    @property
    def batches_per_round(self) -> int:
        """How many batches all processes take in one step."""
        return 1 if self.mode == "split" else self.world_size

    def samples_per_round(self, batch_size: int) -> int:
        """How many samples all processes take in one step; an epoch of equal batches is a multiple of it."""
        if self.mode == "split" and batch_size % self.world_size:
            rule = f"be a multiple of world_size = {self.world_size} where batches are split"
            raise invalid("batch_size", rule, batch_size)
        return batch_size * self.batches_per_round

    def share(self, batches: list[Batch], *, multiple_of: int = 1, cut: bool = True) -> list[Batch]:
        """The batches of this process: as many as every other has, and no sample with two processes.

        Their number is a multiple of `multiple_of`. Where that of `batches` is not, as many as are missing are cut in
        halves; a last one too small to share, or to hold a negative, is joined with the one before and cut in halves.
        With `cut=False`, batches beyond the last whole round are left out instead.
        """
        per_round = self.batches_per_round * multiple_of
        if cut:
            batches = _evened_out(batches, per_round, at_least=max(2, self.world_size) if self.mode == "split" else 2)
        else:
            batches = batches[: len(batches) // per_round * per_round]
        if self.mode == "split":
            return [np.array_split(batch, self.world_size)[self.rank] for batch in batches]
        return batches if self.mode == "dealt" else batches[self.rank :: self.world_size]

    def count(self, batches: int, *, multiple_of: int = 1, cut: bool = True) -> int:
        """How many batches `share` gives this process out of so many."""
        per_round = self.batches_per_round * multiple_of
        rounds = -(-batches // per_round) if cut else batches // per_round
        return rounds * (per_round if self.mode == "dealt" else multiple_of)


def with_company(batches: list[Batch]) -> list[Batch]:
    """The same samples with no lone one at the end, which would have no negative, where batches are not too small."""
    lone = len(batches) > 1 and len(batches[-1]) == 1 and len(batches[0]) > 2
    return _evened_out(batches, 1, at_least=2) if lone else batches


def _evened_out(batches: list[Batch], multiple_of: int, *, at_least: int) -> list[Batch]:
    """The same samples in a number of batches that is a multiple, each of at least so many samples."""
    size = len(batches[0])
    full = batches if len(batches[-1]) == size else batches[:-1]
    rest = batches[len(full) :]
    if rest and len(rest[0]) < at_least:
        full, rest = full[:-1], np.array_split(np.concatenate([full[-1], *rest]), 2)
    uncut = len(full) - (-len(batches) % multiple_of)
    halves = [half for batch in full[uncut:] for half in np.array_split(batch, 2)]
    even = full[:uncut] + halves + rest
    if len(batches) < multiple_of or min(len(batch) for batch in even) < at_least:
        rule = f"be at least {multiple_of}, of at least {2 * at_least} samples each, to be shared"
        raise invalid("batches", rule, f"{len(batches)} of up to {size}")
    return even


def many_processes() -> bool:
    """Whether there is a process group of more than one process."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def newest_of_all(recorded_at: Tensor, group: dist.ProcessGroup | None = None) -> tuple[Tensor, Tensor]:
    """The newest record of each sample in any process, (n,), and which of them are those of this process, (n,).

    Each sample has one owner: of records equally new, that of the lowest rank.
    """
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    mine = recorded_at * world_size + (world_size - 1 - rank)
    newest = mine.to(_device(group, mine), copy=True)
    dist.all_reduce(newest, op=dist.ReduceOp.MAX, group=group)
    newest = newest.to(mine.device)
    return newest.div(world_size, rounding_mode="floor"), newest == mine


def take_from_owners(rows: Tensor, mine: Tensor, group: dist.ProcessGroup | None = None) -> None:
    """Writes to rows: (n, d), on all processes, what the owner of each row holds there."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        # All but the owner add zeros. In float32, since not every backend adds float16.
        part = torch.where(mine[block, None], rows[block].float(), 0.0).to(_device(group, rows))
        dist.all_reduce(part, group=group)
        rows[block] = part.to(rows)


def mean_of_all(numbers: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """The mean of each of numbers: (n,) over the processes where it is not NaN; NaN if it is on all."""
    known = ~numbers.isnan()
    total = torch.stack([numbers.where(known, 0.0), known.to(numbers)]).to(_device(group, numbers))
    dist.all_reduce(total, group=group)
    return (total[0] / total[1]).to(numbers)


def numbers_of_all(numbers: Tensor, *, padding: int, group: dist.ProcessGroup | None = None) -> Tensor:
    """(world_size * most,) the numbers: (n,) of all processes; those that bring fewer than the most are padded."""
    most = torch.tensor(len(numbers), device=_device(group, numbers))
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    here = numbers.new_full((int(most),), padding, device=most.device)
    here[: len(numbers)] = numbers
    parts = [torch.empty_like(here) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, here, group=group)
    return torch.cat(parts).to(numbers.device)


def swap_bytes(
    rows: NDArray[np.uint8], counts: list[int], incoming: list[int], group: dist.ProcessGroup | None
) -> Tensor:
    """Sends bytes: (m,), so many to each process, and gives those that come, so many from each."""
    mine = torch.from_numpy(rows)
    device = _device(group, mine)
    found = torch.empty(sum(incoming), dtype=torch.uint8, device=device)
    dist.all_to_all_single(found, mine.to(device), incoming, counts, group=group)
    return found.cpu()


def _device(group: dist.ProcessGroup | None, like: Tensor) -> torch.device:
    """Where tensors must be to be sent: NCCL takes those of its own device alone."""
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend(group) == "nccl" else like.device
