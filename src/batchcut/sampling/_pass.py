"""One pass over the batches of an epoch."""

from collections.abc import Callable, Iterator

from ._sharding import Batch


class Pass(Iterator[list[int]]):
    """One pass over the batches of an epoch, from a position on.

    The batches are made when the first is drawn and not before: loaders make iterators that they throw away (each
    DataLoader with workers makes two for its first pass, a StatefulDataLoader up to four after a restore).
    """

    def __init__(self, batches: Callable[[], list[Batch]], start: int) -> None:
        self._batches = batches
        self._made: list[Batch] | None = None
        self.start = self.position = start
        self.over = False

    def __next__(self) -> list[int]:
        if self._made is None:
            self._made = self._batches()
        if self.position >= len(self._made):
            self.over = True
            raise StopIteration
        self.position += 1
        indices: list[int] = self._made[self.position - 1].tolist()
        return indices
