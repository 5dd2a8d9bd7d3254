"""A selector: settings in the record, data in the call."""

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol, runtime_checkable

from batchcut._interrupts import interrupts_kept

from ._epoch import Leftover, Progress
from ._parallel import Workers, workers
from ._plan import BatchPlan
from ._request import Request, close_request, open_request
from ._score import Chosen, Weighting


@runtime_checkable
class Selector(Protocol):
    """What all selectors have in common, and all that a selector of your own must have."""

    def __call__(
        self,
        u: object,
        v: object,
        *,
        batch_size: int,
        seed: int = 0,
        epoch: int = 0,
        groups: object = None,
        leftover: Leftover = "rotate",
        progress: Progress | None = None,
    ) -> BatchPlan:
        """Chooses the batches of one epoch from the embeddings u: (N, d) and v: (N, d) of N positive pairs.

        Args:
            u: Embeddings of one side: NumPy array, memory map or torch tensor of floats.
            v: Embeddings of the other side; row i of u and v belong together.
            batch_size: B, between 2 and N.
            seed: With `epoch`, what all randomness is a function of.
            epoch: Which epoch the plan is for.
            groups: An integer or a string per sample; two of one group share a batch only if they must.
            leftover: Where B does not divide N: "rotate" leaves out N mod B samples, others each epoch;
                "short" puts them in one short batch.
            progress: Called with the share of the work done, from 0 to 1.
        """


class PlanningSelector(ABC):
    """The way from a call to a plan: check, choose, measure. A selector of this package says how to choose.

    Attributes:
        temperature: τ of losses and weights.
        margin: Which pairs get no weight, as in `Cut`.
        normalize: Divide rows by their norm; if False, rows that are not unit vectors are refused.
    """

    temperature: float
    margin: float | None = None
    normalize: bool

    not_recorded: ClassVar[frozenset[str]] = frozenset()
    """Settings that no plan depends on, so that none holds them."""

    @property
    def repeats(self) -> bool:
        """Whether a sample may be in several batches of the plan."""
        return False

    @property
    def thread_count(self) -> int:
        """How many threads work."""
        return 1

    def __call__(
        self,
        u: object,
        v: object,
        *,
        batch_size: int,
        seed: int = 0,
        epoch: int = 0,
        groups: object = None,
        leftover: Leftover = "rotate",
        progress: Progress | None = None,
    ) -> BatchPlan:
        """Chooses batches of the pairs u: (N, d), v: (N, d); for the arguments see `Selector`."""
        request = open_request(
            u,
            v,
            normalize=self.normalize,
            batch_size=batch_size,
            seed=seed,
            epoch=epoch,
            groups=groups,
            leftover=leftover,
            progress=progress,
        )
        weighting = Weighting.of(request.pairs, request.batch_size, self.temperature, self.margin)
        with interrupts_kept(), workers(self.thread_count) as crew:
            chosen = self._choose(request, weighting, crew)
            settings = {name: value for name, value in vars(self).items() if name not in self.not_recorded}
            method = type(self).__name__
            return close_request(request, chosen, method, settings, weighting, repeats=self.repeats, crew=crew)

    @abstractmethod
    def _choose(self, request: Request, weighting: Weighting, crew: Workers) -> Chosen:
        """Batches (K, B) of the samples in use."""
