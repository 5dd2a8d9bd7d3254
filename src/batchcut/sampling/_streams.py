"""Hard batches out of a stream, where samples have no indices: pools of batches planned anew, or the hardest kept."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from batchcut._errors import check_flag, check_integer, invalid, wrong_type
from batchcut.selection import BatchPlan, Cut, Groups, Selector, check_selector, check_temperature, read_groups

from ._batch import Embed, embedded, evaluating, join, length, take, usable
from ._distributed import Batch as Indices
from ._distributed import with_company

Batch = TypeVar("Batch")


class StreamPlanner:
    """Takes a pool of batches from a stream, embeds them without gradient, and hands them out as as many hard ones.

    For `IterableDataset` and WebDataset-style input. Pools of ten batches give most of what planning the whole set
    gives. Samples keep to their pool, so that a pass has the samples of the stream, each once, unless the selector
    leaves some out, as `Ordered` does. A last pool of fewer batches is planned too, and one whose samples do not fill
    its batches ends in a short one, or, if that would be a single sample, in two halves. A pool to which a diverged
    model gives embeddings that are not finite goes out as it came; a warning says so once.

    `set_epoch` says which epoch the next pass is; until it is called for the first time, each pass is the next epoch.

    `state_dict` holds the plan of the pool under way and its number, so that a training that was stopped goes on with
    the same batches, from a stream that yields the same again.

    Args:
        stream: yields batches: tensors, arrays or lists, or tuples, lists and dictionaries of them.
        embed: called with a batch, gives u: (b, d) and v: (b, d); a tuple or list of parts is given as several
            arguments. A module is put in evaluation mode while it embeds.
        pool: how many batches are taken at a time.
        selector: how to choose; `Cut()` if left out.
        temperature: τ of the loss, for a selector that has none of its own.
        seed: of all randomness, together with the epoch and the number of the pool.
        groups: called with a batch, gives the groups of its samples as a selector takes them: a label for each, or a
            list of labels for each. Two samples with one in common share a batch only if they must.

    Attributes:
        epoch: that of the pass begun last, or to begin next where `set_epoch` says so.
        plan: that of the last pool, for a closer look; its indices are places in the pool.
    """

    def __init__(
        self,
        stream: Iterable[Any],
        embed: Embed,
        *,
        pool: int = 10,
        selector: Selector | None = None,
        temperature: float | None = None,
        seed: int = 0,
        groups: Callable[[Any], Iterable[Any]] | None = None,
    ) -> None:
        if groups is not None and not callable(groups):
            raise wrong_type("groups", "be None or a function of a batch", groups)
        self.stream = stream
        self.embed = embed
        self.groups = groups
        self.pool = check_integer("pool", pool, at_least=1)
        self.selector: Selector = Cut() if selector is None else check_selector(selector)
        self.temperature = None if temperature is None else check_temperature(temperature)
        self.seed = check_integer("seed", seed, at_least=0)
        self.epoch = 0
        self.plan: BatchPlan | None = None
        self._begun = self._set_by_caller = self._warned = False
        self._rows: list[Indices] | None = None  # the batches of the pool under way, None where it goes out as it came
        self._pools_begun = self._given = 0  # how many pools there were with it, and how many of its batches were given
        self._kept: _Kept | None = None  # where the next pass goes on, until it is past that place

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next pass is."""
        number = check_integer("epoch", epoch, at_least=0)
        if number != self.epoch:
            self._forget_the_place()
        self.epoch, self._set_by_caller = number, True

    def __iter__(self) -> Iterator[Any]:
        if self._begun and not self._set_by_caller:
            self.epoch += 1
        self._begun = True
        self._forget_the_place()
        return self._pools(self.epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where this pass is: the epoch, how many pools were begun, the batches of the last, how many were given."""
        if not self.selector.covers:
            raise invalid("selector", "be one that takes each sample once, to keep a state", repr(self.selector))
        if self._kept is not None and self._kept.epoch == self.epoch:
            return self._kept.state
        rows = None if self._rows is None else [row.tolist() for row in self._rows]
        return {"epoch": self.epoch, "pools": self._pools_begun, "rows": rows, "given": self._given}

    def load_state_dict(self, state: Mapping[str, Any], *, skip: bool = True) -> None:
        """Goes on from a state: the next pass, if it is of the same epoch, has the batches that remained.

        What the stream yields before the pool under way is neither embedded nor planned again.

        Args:
            state: from `state_dict`.
            skip: leave out the batches that were given; if False, as many others are in their place, and the caller
                skips them.
        """
        self._kept = _Kept.of(state, skip=skip)
        self.epoch, self._begun = self._kept.epoch, False

    def _forget_the_place(self) -> None:
        self._pools_begun = self._given = 0
        self._rows = None

    def _pools(self, epoch: int) -> Iterator[Any]:
        batches = iter(self.stream)
        kept = self._kept = self._kept if self._kept is not None and self._kept.epoch == epoch else None
        number = 0
        while pool := list(islice(batches, self.pool)):
            self._pools_begun, self._rows, self._given = number + 1, None, 0
            if kept is None or number >= kept.pools:
                planned = self._planned(pool, epoch, number)
            else:
                planned = self._resumed(pool, kept, number)
            for batch in planned:
                self._given += 1
                if kept is not None and kept is self._kept and (number + 1, self._given) > (kept.pools, kept.given):
                    self._kept = None
                yield batch
            number += 1
        if kept is self._kept:
            self._kept = None

    def _resumed(self, pool: list[Any], kept: "_Kept", number: int) -> Iterator[Any]:
        """A pool that was planned before a state was taken."""
        if number < kept.pools - 1:
            return iter(() if kept.skip else pool)
        self._given = kept.given if kept.skip else 0
        return islice(self._dealt(pool, kept.rows_of(sum(map(length, pool)))), self._given, None)

    def _dealt(self, pool: list[Any], rows: list[Indices] | None) -> Iterator[Any]:
        """The samples of a pool in batches of these places; as they came, if there are none."""
        self._rows = rows
        if rows is None:
            return iter(pool)
        samples = join(pool)
        pool.clear()  # so that the samples are held once
        return (take(samples, row.tolist()) for row in rows)

    def _planned(self, pool: list[Any], epoch: int, number: int) -> Iterator[Any]:
        size = max(length(batch) for batch in pool)  # not of the first: each worker's last batch is short
        if len(pool) == 1 or size < 2:
            return iter(pool)
        u, v = self._embeddings(pool)
        if not bool((usable(u) & usable(v)).all()):
            self._warn()
            return iter(pool)
        # A pool is a set of its own, with random numbers of its own.
        stream = (epoch << 32) + number
        plan = self.selector(
            u,
            v,
            batch_size=size,
            seed=self.seed,
            epoch=stream,
            groups=self._groups_of(pool, len(u)),
            drop_last=False,
            temperature=self.temperature,
        )
        self.plan = replace(plan, epoch=epoch)
        return self._dealt(pool, with_company(list(self.plan)))

    def _groups_of(self, pool: list[Any], count: int) -> Groups | None:
        """Read here, so that not every pool with a large group warns."""
        if self.groups is None:
            return None
        return read_groups([label for batch in pool for label in self.groups(batch)], count)

    def _embeddings(self, pool: list[Any]) -> tuple[Tensor, Tensor]:
        sides = []
        with evaluating(self.embed):
            for batch in pool:
                u, v = embedded(self.embed, batch)
                if len(u) != length(batch):
                    raise invalid("embed", f"give a row for each of the {length(batch)} samples", tuple(u.shape))
                sides.append((u, v))
        return torch.cat([u for u, _ in sides]), torch.cat([v for _, v in sides])

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                "embeddings of a pool were NaN, infinite or zero; it goes out as it came (said once)",
                RuntimeWarning,
                stacklevel=4,
            )


@dataclass(frozen=True)
class _Kept:
    """Where a pass goes on: see `StreamPlanner.state_dict`."""

    epoch: int
    pools: int
    rows: tuple[tuple[int, ...], ...] | None
    given: int
    skip: bool

    @property
    def state(self) -> dict[str, Any]:
        """What it was made of."""
        rows = None if self.rows is None else [list(row) for row in self.rows]
        return {"epoch": self.epoch, "pools": self.pools, "rows": rows, "given": self.given}

    @staticmethod
    def of(state: object, *, skip: bool) -> "_Kept":
        if not isinstance(state, Mapping):
            raise wrong_type("state", "be of a StreamPlanner", state)
        missing = {"epoch", "pools", "rows", "given"} - set(state)
        if missing:
            raise invalid("state", "be of a StreamPlanner", f"no {', '.join(sorted(missing))}")
        epoch, pools, given = (
            check_integer(f"state[{name!r}]", state[name], at_least=0) for name in ("epoch", "pools", "given")
        )
        check_flag("skip", skip)
        rows = state["rows"]
        if rows is not None:
            if not isinstance(rows, (list, tuple)) or not all(isinstance(row, (list, tuple)) for row in rows):
                raise wrong_type("state['rows']", "be None or a list of lists", rows)
            places = [check_integer("state['rows']", place, at_least=0) for row in rows for place in row]
            if sorted(places) != list(range(len(places))):
                raise invalid("state['rows']", "hold each place of the pool once", f"{len(places)} places")
            rows = tuple(tuple(row) for row in rows)
        return _Kept(epoch, pools, rows, given, skip)

    def rows_of(self, count: int) -> list[Indices] | None:
        """The batches of a pool of so many samples."""
        if self.rows is None:
            return None
        if sum(map(len, self.rows)) != count:
            rule = f"have as many samples in pool {self.pools - 1} as before, {sum(map(len, self.rows))}"
            raise invalid("stream", rule, count)
        return [np.array(row, np.int64) for row in self.rows]


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
