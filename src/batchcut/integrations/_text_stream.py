"""A stream of texts whose rows come in the order of planned batches."""

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from datasets import IterableDataset

from batchcut.sampling import StreamPlanner
from batchcut.selection import BatchPlan

from ._text_batches import Embed, rows_in, text_columns
from ._texts import name_of


class PlannedStream(IterableDataset):  # type: ignore[misc]
    """An `IterableDataset` whose rows, some batches at a time, are encoded, planned and given batch by batch.

    A loader that takes as many rows for each batch gets the planned batches.
    """

    plan: BatchPlan | None
    _embed: Embed
    _labels: list[str]
    _settings: dict[str, Any]
    _planner: StreamPlanner | None
    _kept: dict[str, Any] | None

    @staticmethod
    def of(dataset: IterableDataset, embed: Embed, *, labels: list[str], **settings: Any) -> "PlannedStream":
        """The same stream in another order; `settings` are batch_size and those of a `StreamPlanner`."""
        planned: Any = copy.copy(dataset)
        planned.__class__ = PlannedStream
        planned.plan, planned._embed, planned._labels, planned._settings = None, embed, labels, settings
        planned._planner = planned._kept = None
        return cast(PlannedStream, planned)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        settings = dict(self._settings)
        batches = _in_batches(super().__iter__(), settings.pop("batch_size"))
        planner = self._planner = StreamPlanner(batches, self._sides, groups=self._texts, **settings)
        if self._kept is not None:
            planner.load_state_dict(self._kept, skip=False)
            self._kept = None
        planner.set_epoch(int(self.epoch))
        for batch in planner:
            self.plan = planner.plan
            yield from rows_in(batch)

    @property
    def state(self) -> dict[str, Any] | None:
        """The plan of the rows that come next, and which they are; None where none of them was planned."""
        if self._kept is not None:
            return self._kept
        covers = self._planner is not None and self._planner.selector.covers
        return self._planner.state_dict() if self._planner is not None and covers else None

    def go_on_from(self, state: dict[str, Any]) -> None:
        """Lets the next pass give the rows of a state in its order; those before it as they come, to be skipped."""
        self._kept = state

    def _sides(self, batch: dict[str, list[Any]]) -> Any:
        return self._embed(rows_in(batch))

    def _texts(self, batch: dict[str, list[Any]]) -> list[list[str]]:
        columns = text_columns(batch, self._labels)
        return [[name_of(text) for text in texts] for texts in zip(*(batch[name] for name in columns), strict=True)]


def _in_batches(rows: Iterator[dict[str, Any]], size: int) -> Iterator[dict[str, list[Any]]]:
    while some := list(islice(rows, size)):
        yield {name: [row[name] for row in some] for name in some[0]}
