"""A data set that says which sample each item is."""

from typing import Any, Protocol, TypeVar, runtime_checkable

from torch.utils.data import Dataset

Item = TypeVar("Item", covariant=True)


@runtime_checkable
class _TakesMany(Protocol):
    def __getitems__(self, indices: list[int]) -> list[Any]: ...


class Indexed(Dataset[tuple[int, Item]]):
    """Adds its index to each item: (index, item).

    A loader over it yields (index, batch), where index: (B,) is what `EmbeddingBank.record` wants. A data set that fetches
    whole batches (`__getitems__`) still does.
    """

    def __init__(self, dataset: Dataset[Item]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> tuple[int, Item]:
        return index, self.dataset[index]

    def __getitems__(self, indices: list[int]) -> list[tuple[int, Item]]:
        if isinstance(self.dataset, _TakesMany):
            return list(zip(indices, self.dataset.__getitems__(indices), strict=True))
        return [self[index] for index in indices]
