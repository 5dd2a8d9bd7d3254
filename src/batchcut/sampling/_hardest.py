"""OSGD as a rule for each step."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

import torch
from torch import Tensor

from batchcut._errors import check_integer, invalid, wrong_type

Batch = TypeVar("Batch")


class HardestOf(Generic[Batch]):
    """Of each k batches of a loader, the q of highest loss, hardest first (`alg:osgd`, `alg:osgd_wo_replacement`).

    The losses of the candidates are computed without gradient. A step then takes the mean over what it gets:

        for step in HardestOf(loader, loss_of, k=10, q=2):
            loss = torch.stack([loss_of(batch) for batch in step]).mean()

    Of equal losses the first is taken, one that is NaN last. Candidates at the end that do not make k are not used.
    `loss_of` is called as it is: a model in training mode moves the averages of its batch norms by the candidates, too.

    Args:
        loader: yields batches.
        loss_of: the loss of a batch, a scalar.
        k: how many candidates a step has.
        q: how many of them it takes, at most k.
    """

    def __init__(self, loader: Iterable[Batch], loss_of: Callable[[Batch], Tensor], *, k: int, q: int) -> None:
        self.loader = loader
        self.loss_of = loss_of
        self.k = check_integer("k", k, at_least=1)
        self.q = check_integer("q", q, at_least=1, at_most=self.k)

    def __iter__(self) -> Iterator[list[Batch]]:
        batches = iter(self.loader)
        while len(candidates := list(islice(batches, self.k))) == self.k:
            with torch.no_grad():
                losses = torch.stack([self._loss(batch) for batch in candidates])
            losses = losses.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
            hardest = losses.argsort(descending=True, stable=True)[: self.q]
            yield [candidates[place] for place in hardest.tolist()]

    def __len__(self) -> int:
        return len(self.loader) // self.k  # type: ignore[arg-type]

    def _loss(self, batch: Batch) -> Tensor:
        loss = self.loss_of(batch)
        if not isinstance(loss, Tensor):
            raise wrong_type("loss_of", "give a tensor", loss)
        if loss.numel() != 1:
            raise invalid("loss_of", "give one number for a batch", f"shape {tuple(loss.shape)}")
        return loss.reshape(())
