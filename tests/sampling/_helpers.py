"""Banks and samplers that the tests share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.utils.data import Dataset, TensorDataset

from batchcut.sampling import EmbeddingBank, Indexed, PlannedBatchSampler
from batchcut.selection import BatchPlan, Cut, Request, Selector

DIM = 6


def pairs(n: int, *, seed: int = 0, dim: int = DIM) -> tuple[Tensor, Tensor]:
    """n positive pairs of unit rows."""
    random = torch.Generator().manual_seed(seed)
    u = normalize(torch.randn(n, dim, generator=random), dim=1)
    return u, normalize(u + 0.3 * torch.randn(n, dim, generator=random), dim=1)


def filled(n: int, *, seed: int = 0) -> EmbeddingBank:
    """A bank that has seen every sample."""
    bank = EmbeddingBank(n, DIM)
    bank.record(torch.arange(n), *pairs(n, seed=seed))
    return bank


def data_set(n: int) -> Indexed[Any]:
    """n pairs, indexed."""
    data: Dataset[Any] = TensorDataset(*pairs(n))
    return Indexed(data)


def flat(batches: Iterable[Sequence[int]]) -> list[int]:
    """The samples of some batches, in order."""
    return [index for batch in batches for index in batch]


def passes(sampler: PlannedBatchSampler, epochs: int) -> list[list[list[int]]]:
    """The batches of some passes."""
    return [list(sampler) for _ in range(epochs)]


class Called(Selector):
    """A selector that answers calls by itself."""

    def choose(self, request: Request) -> Any:
        raise AssertionError("its call chooses")


@dataclass(frozen=True, kw_only=True)
class Spy(Called):
    """`Cut`, and what it was called with."""

    calls: list[dict[str, Any]]

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        self.calls.append({"u": u.clone(), "v": v.clone(), **arguments})
        return Cut(threads=1)(u, v, **arguments)

    def __repr__(self) -> str:
        return "Spy()"
