"""`Selector`: settings in the record, data in the call; the way from a call to a plan."""

import os
import time
import zlib
from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import Any

import numpy as np

from batchcut._conventions import DEFAULT_TEMPERATURE
from batchcut._errors import check_integer, invalid, wrong_type
from batchcut._interrupts import interrupts_kept
from batchcut._progress import Progress

from ._epoch import batch_count
from ._inputs import Ints
from ._plan import BatchPlan
from ._request import Request, open_request
from ._score import Chosen, score
from ._weights import check_margin, check_temperature
from .compute import crew_of
from .groups import Groups, count_group_pairs, warn_of_large_groups

_MOST_LETTERS, _FEW_LETTERS = 80, 40  # of the words for a setting


class Selector(ABC):
    """Chooses which samples share a batch. All selectors are interchangeable, your own among them.

    A selector is a frozen record of settings. One of your own subclasses this class and has one method, `choose`:

        @dataclass(frozen=True, kw_only=True)
        class ByLength(Selector):
            lengths: NDArray[np.int64]

            def choose(self, request: Request) -> NDArray[np.int64]:
                order = np.argsort(self.lengths[request.samples[request.used]], kind="stable")
                return request.parted(request.deal(request.used[order]))

    It also says what it makes, where that is not each sample once: `batch_count` and `covers`. The plan's `method` is
    the name of the class, its `settings` are the fields of the record but `threads`; a setting that is no number, no
    string and not None stands there in a few words. Attributes below that users shall set, declare as fields.

    Attributes:
        temperature: τ of losses and weights. None: the one of the call, which is that of the loss or the loader.
        margin: Pairs whose two similarities come, on average, within it of their own positives get no weight.
        threads: How many threads work; None: one per processor. No plan may depend on it, so none holds it.
    """

    temperature: float | None = None
    margin: float | None = None
    threads: int | None = 1

    def __post_init__(self) -> None:
        if self.temperature is not None:
            check_temperature(self.temperature)
        check_margin(self.margin)
        if self.threads is not None:
            check_integer("threads", self.threads, at_least=1)

    @abstractmethod
    def choose(self, request: Request) -> Ints | Chosen:
        """Batches (K, B) of indices below N: int64, full, but for -1 at the end of a short last row."""

    @property
    def covers(self) -> bool:
        """Whether each sample in use is in exactly one batch."""
        return True

    @property
    def is_shuffle(self) -> bool:
        """Whether a new random partition each epoch is all that it gives: then nothing need be recorded to plan by."""
        return False

    def batch_count(self, count: int, batch_size: int) -> int:
        """How many batches of size B this selector makes of N samples, all of them in use, without planning."""
        return batch_count(count, batch_size)

    def __call__(
        self,
        u: object,
        v: object,
        *,
        batch_size: int,
        seed: int = 0,
        epoch: int = 0,
        groups: object = None,
        drop_last: bool = True,
        temperature: float | None = None,
        samples: object = None,
        progress: Progress | None = None,
    ) -> BatchPlan:
        """Chooses the batches of one epoch from the embeddings u: (N, d) and v: (N, d) of N positive pairs.

        Args:
            u: Embeddings of one side: NumPy array, memory map or torch tensor of floats; rows are made unit vectors.
            v: Embeddings of the other side; row i of u and v belong together.
            batch_size: B, between 2 and N.
            seed: With `epoch`, what all randomness is a function of.
            epoch: Which epoch the plan is for.
            groups: An integer or a string per sample, or a list of them for each; two samples with one in common share
                a batch only if they must. A sparse array (N, G) says the same by what is not zero in row i.
            drop_last: Where B does not divide N, leave out N mod B samples, others each epoch; if False, they make one
                short batch.
            temperature: τ, where the selector itself has none; 0.1 where neither has one.
            samples: The numbers of the rows in the data set, where they are not 0 to N − 1: for a selector that knows
                something else of each sample. The plan's own numbers are those of the rows.
            progress: Called with the share of the work done, from 0 to 1.
        """
        started = time.perf_counter()
        given = (t for t in (self.temperature, temperature, DEFAULT_TEMPERATURE) if t is not None)
        with interrupts_kept(), crew_of(self.threads or os.cpu_count() or 1) as crew:
            request = open_request(
                u,
                v,
                samples=samples,
                batch_size=batch_size,
                seed=seed,
                epoch=epoch,
                groups=groups,
                drop_last=drop_last,
                temperature=check_temperature(next(given)),
                margin=self.margin,
                crew=crew,
                progress=progress,
            )
            if self.covers and not isinstance(groups, Groups):
                warn_of_large_groups(request.groups, request.batch_count)
            return self._plan(request, self.choose(request), started)

    def _plan(self, request: Request, chosen: Ints | Chosen, started: float) -> BatchPlan:
        """The plan of batches that were chosen, which are measured where their scores are not known yet."""
        if not isinstance(chosen, Chosen):
            rows = _checked(chosen, len(request.pairs))
            chosen = Chosen(rows, *score(request.pairs, rows, request.weighting, request.crew))
        batches = chosen.batches
        times = np.bincount(batches[batches >= 0], minlength=len(request.pairs))
        if self.covers and np.count_nonzero(times) != len(request.used):
            rule = f"choose each of the {len(request.used)} samples in use, unless covers is False"
            raise invalid(f"{type(self).__name__}.choose", rule, np.count_nonzero(times))
        request.report(1.0)
        return BatchPlan(
            batches=batches,
            count=len(request.pairs),
            method=type(self).__name__,
            settings={**_settings(self), "temperature": request.weighting.temperature},
            seed=request.seed,
            epoch=request.epoch,
            temperature=request.weighting.temperature,
            drop_last=request.drop_last,
            repeats=not self.covers and bool(times.max() > 1),
            losses=chosen.losses,
            weights=chosen.weights,
            left_over=np.flatnonzero(times == 0),
            group_pairs=0 if request.groups is None else count_group_pairs(batches, request.groups),
            margin_pairs=chosen.margin_pairs,
            seconds=time.perf_counter() - started,
        )


def check_selector(selector: object) -> Selector:
    """Returns the selector, if it is one; its class is not."""
    if isinstance(selector, type):
        raise invalid("selector", f"be made first, as by {selector.__name__}()", f"the class {selector.__name__}")
    if not isinstance(selector, Selector):
        raise wrong_type("selector", "be a Selector", selector)
    return selector


def _checked(batches: object, count: int) -> Ints:
    """What a selector chose, if it can be scored; all else is checked by the plan."""
    rows = np.asarray(batches)
    if rows.ndim != 2 or rows.dtype.kind not in "iu" or not rows.size:
        raise invalid("batches", "be integers of shape (K, B)", f"{rows.dtype.name} of shape {rows.shape}")
    if rows.max() >= count:
        raise invalid("batches", f"hold indices below {count}", rows.max())
    return rows.astype(np.int64, copy=False)


def _settings(selector: Any) -> dict[str, Any]:
    """The fields of the record by name, but `threads`, on which no plan depends; see `in_words`."""
    record = {f.name: getattr(selector, f.name) for f in fields(selector)} if is_dataclass(selector) else vars(selector)
    return {name: in_words(value) for name, value in record.items() if name != "threads"}


def in_words(value: Any) -> Any:
    """A number, a string or None as it is; anything else in a few words, which differ where the values do."""
    if value is None or isinstance(value, (str, Real, np.bool_)):
        return value
    if hasattr(value, "__array__"):  # whose own words leave out most of it
        array = np.ascontiguousarray(value)
        return f"{array.dtype} {array.shape} {zlib.crc32(array.tobytes()):08x}"
    text = repr(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_FEW_LETTERS]}... {zlib.crc32(text.encode()):08x}"


def selector_in_words(selector: Selector) -> str:
    """What a selector is known by in a state: its class and all that its plans depend on, but τ, told apart."""
    settings = ", ".join(f"{name}={value!r}" for name, value in _settings(selector).items() if name != "temperature")
    return f"{type(selector).__qualname__}({settings})"
