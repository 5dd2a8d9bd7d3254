"""Hard batches out of a stream, where samples have no indices."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from batchcut._errors import check_integer
from batchcut.selection import BatchPlan, Cut, Selector

from ._nested import join, length, take


class StreamPlanner:
    """Takes k batches at a time from a stream, embeds them without gradient, and hands them out as k hard batches.

    For `IterableDataset` and WebDataset-style input. Pools of ten batches give most of what planning the whole set
    gives. Samples keep to their pool, so that a pass has the samples of the stream, each once; a last pool of fewer
    batches is planned too, and one whose samples do not fill the batches ends in a short one.

    Args:
        stream: yields batches: tensors, or tuples, lists and dictionaries of tensors, or lists.
        embed: called with a batch, gives u and v; a model, in the mode that it is in.
        k: how many batches make a pool.
        selector: how to choose; `Cut()` if left out.
        seed: of all randomness, together with the number of the pass.
    """

    def __init__(
        self,
        stream: Iterable[Any],
        embed: Callable[[Any], tuple[Tensor, Tensor]],
        *,
        k: int = 10,
        selector: Selector | None = None,
        seed: int = 0,
    ) -> None:
        self.stream = stream
        self.embed = embed
        self.k = check_integer("k", k, at_least=1)
        self.selector: Selector = Cut() if selector is None else selector
        self.seed = check_integer("seed", seed, at_least=0)
        self.epoch = 0
        self.plan: BatchPlan | None = None

    def set_epoch(self, epoch: int) -> None:
        """Says which pass the next one is."""
        self.epoch = check_integer("epoch", epoch, at_least=0)

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.stream)
        pool_number = 0
        while pool := list(islice(batches, self.k)):
            yield from self._planned(pool, pool_number)
            pool_number += 1

    def _planned(self, pool: list[Any], number: int) -> Iterator[Any]:
        size = length(pool[0])
        if len(pool) == 1 or size < 2:
            yield from pool
            return
        with torch.no_grad():
            sides = [self.embed(batch) for batch in pool]
        u, v = (torch.cat([side[i].detach() for side in sides]) for i in (0, 1))
        # A pool is a set of its own, with a random stream of its own.
        self.plan = self.selector(
            u, v, batch_size=size, seed=self.seed, epoch=(self.epoch << 32) + number, leftover="short"
        )
        samples = join(pool)
        for row in self.plan:
            yield take(samples, row.tolist())
