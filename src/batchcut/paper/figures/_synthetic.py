"""Free embeddings on the sphere: descent to a standstill, and descent on one chosen batch a step."""

import math
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import torch
from torch import Tensor

from batchcut._progress import Progress
from batchcut.losses.paper import contrastive_loss
from batchcut.selection import Cut, Ordered, Selector, Shuffle, Spectral
from batchcut.theory import Normalize, descend, distance_to_optimum, one_thread, over_all_batches, random_embeddings

B = 2
LEARNING_RATE = 0.5
NORMALIZE: tuple[Normalize, ...] = ("each step", "in the loss")
STRETCH = 500
ARRIVED = 1e-3
STILL = 1e-10
"""A descent stands still when its loss falls by less than this in a stretch of steps."""

OSGD, OSGD_TEXT = "OSGD", "OSGD, k = N/B"
SC, SC_AUTHORS = "SC, text", "SC, authors' code"
METHODS = ("SGD", OSGD, OSGD_TEXT, SC, SC_AUTHORS, "Cut")

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class End:
    """Where a descent ended.

    Attributes:
        u: (n, d) unit rows.
        v: (n, d) unit rows.
        steps: how many steps it took.
        distance: to the optimum; None where no optimum is known.
    """

    u: Tensor
    v: Tensor
    steps: int
    distance: float | None


def losses_to_compare(n: int) -> dict[str, Loss]:
    """The full batch, all C(n, 2) batches, and a fixed partition, which is the subset of the authors' code."""
    pairs = over_all_batches(n, B)
    partition = torch.arange(n).reshape(-1, B)
    return {
        "full": contrastive_loss,
        "all": lambda u, v: pairs(u @ v.T),
        "sub": lambda u, v: torch.stack([contrastive_loss(u[batch], v[batch]) for batch in partition]).mean(),
    }


class _AtRest(Exception):  # noqa: N818 - nothing went wrong
    """Ends a descent from within: `descend` itself goes on for a given number of steps."""

    def __init__(self, end: End) -> None:
        super().__init__("at rest")
        self.end = end


def descend_to_rest(
    loss: Loss, u: Tensor, v: Tensor, *, normalize: Normalize, most_steps: int, optimum_known: bool = True
) -> End:
    """Descends until the optimum is near, the loss falls no more, or `most_steps` are done."""
    before = math.inf

    def distance(u: Tensor, v: Tensor) -> float | None:
        return distance_to_optimum(u, v) if optimum_known else None

    def observe(step: int, u: Tensor, v: Tensor) -> None:
        nonlocal before
        if step == 0 or step % STRETCH:
            return
        far, now = distance(u, v), float(loss(u, v))
        if (far is not None and far < ARRIVED) or before - now < STILL:
            raise _AtRest(End(u=u, v=v, steps=step, distance=far))
        before = now

    try:
        end = descend(loss, u, v, learning_rate=LEARNING_RATE, steps=most_steps, normalize=normalize, observe=observe)
    except _AtRest as rest:
        return rest.end
    return End(u=end.u, v=end.v, steps=most_steps, distance=distance(end.u, end.v))


def selector_of(method: str, n: int) -> tuple[Selector, int]:
    """The selector of a method, and for how many steps its plan serves: 1, or the n/B batches of a partition."""
    whole = n // B
    selectors: dict[str, tuple[Selector, int]] = {
        "SGD": (Shuffle(temperature=1.0), whole),
        OSGD: (Ordered(exact=True, q=1, temperature=1.0), 1),
        OSGD_TEXT: (Ordered(k=whole, q=1, temperature=1.0), 1),
        SC: (Spectral(variant="paper", temperature=1.0), whole),
        SC_AUTHORS: (Spectral(variant="authors", temperature=1.0), whole),
        "Cut": (Cut(temperature=1.0, margin=None, threads=1), whole),
    }
    return selectors[method]


def chosen_batches(method: str, n: int, seed: int) -> Loss:
    """A loss that is, at each call, that of the next batch which the method chooses from the embeddings it sees."""
    selector, serves = selector_of(method, n)
    batches: list[Tensor] = []
    calls = 0

    def loss(u: Tensor, v: Tensor) -> Tensor:
        nonlocal calls
        if not batches:
            plan = selector(u.detach(), v.detach(), batch_size=B, seed=seed, epoch=calls // serves)
            batches.extend(torch.from_numpy(batch.copy()) for batch in plan)
        calls += 1
        batch = batches.pop(0)
        return contrastive_loss(u[batch], v[batch])

    return loss


@dataclass(frozen=True, kw_only=True)
class Course:
    """How one descent on chosen batches went.

    Attributes:
        distances: to the optimum, on the way and at the end.
        closest: the largest inner product u_i · v_j of different samples at the end; near 1, two have run together.
        aligned: the smallest inner product u_i · v_i at the end; far from 1, a pair has not come together.
    """

    distances: list[float]
    closest: float
    aligned: float


def descend_by(method: str, n: int, d: int, *, normalize: Normalize, seed: int, steps: int, every: int) -> Course:
    """One batch a step, chosen by the method; distances at the steps 0, `every`, ..., `steps`."""
    distances: list[float] = []

    def observe(step: int, u: Tensor, v: Tensor) -> None:
        if step % every == 0:
            distances.append(distance_to_optimum(u, v))

    u, v = random_embeddings(n, d, seed=seed)
    loss = chosen_batches(method, n, seed)
    end = descend(loss, u, v, learning_rate=LEARNING_RATE, steps=steps, normalize=normalize, observe=observe)
    products = end.u @ end.v.T
    different = ~torch.eye(n, dtype=torch.bool)
    return Course(
        distances=[round(value, 6) for value in (*distances, distance_to_optimum(end.u, end.v))],
        closest=round(float(products[different].max()), 6),
        aligned=round(float(products.diagonal().min()), 6),
    )


def courses(
    n: int, d: int, *, seeds: Sequence[int], steps: int, every: int, progress: Progress, processes: int = 1
) -> dict[str, dict[str, list[Course]]]:
    """For each way of normalising and each method, one course per seed; the same for any number of processes."""
    tasks = [(normalize, method, seed) for normalize in NORMALIZE for method in METHODS for seed in seeds]
    work = partial(_course, n, d, steps, every)
    found: dict[str, dict[str, list[Course]]] = {way: {method: [] for method in METHODS} for way in NORMALIZE}
    with _mapping(processes) as mapping:
        for done, (task, course) in enumerate(zip(tasks, mapping(work, tasks), strict=True)):
            found[task[0]][task[1]].append(course)
            progress((done + 1) / len(tasks))
    return found


def _course(n: int, d: int, steps: int, every: int, task: tuple[Normalize, str, int]) -> Course:
    normalize, method, seed = task
    with one_thread():
        return descend_by(method, n, d, normalize=normalize, seed=seed, steps=steps, every=every)


@contextmanager
def _mapping(processes: int) -> Iterator[Callable[..., Iterable[Course]]]:
    """A map over tasks, in order, on so many processes; they end with the context, whatever ends it."""
    if processes == 1:
        yield map
        return
    # Ctrl-C reaches all processes of a terminal; the one that waits for the others ends them.
    with get_context("spawn").Pool(processes, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        yield pool.imap
