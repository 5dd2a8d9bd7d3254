"""One plain training loop for planned batches and their rivals: they differ in batches and in the loss alone.

Towers, optimiser, schedule, first weights and shuffled batches are those of the recipe `pairs`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from benchmarks.loops.losses import Memory, hardest_negatives, loss_with_negatives
from numpy.typing import NDArray
from torch import Tensor

from batchcut.data import Pairs, Split
from batchcut.evaluation import retrieval
from batchcut.losses import SogCLR, contrastive_loss
from batchcut.sampling import EmbeddingBank, PlannedBatchSampler
from batchcut.sampling.bank import rows_of
from batchcut.selection import Selector, Shuffle
from batchcut.training import Config
from batchcut.training._model import Towers, build_model
from batchcut.training._optimizer import build_optimizer, learning_rate, warmup_steps

Batches = list[NDArray[np.int64]]

RELATIVE_MARGIN = 0.05
"""That of `mine_hard_negatives` in the examples of sentence-transformers."""


@dataclass(frozen=True, eq=False)
class Task:
    """What every rival gets: the features of both sides of the training pairs, the towers, and the settings."""

    config: Config
    x: Tensor
    y: Tensor
    towers: Towers

    @property
    def temperature(self) -> float:
        """τ of the loss, and of plans."""
        return self.config.objective.temperature

    def embed(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Unit embeddings u, v: (n, dim) of the samples index: (n,)."""
        u, v = self.towers(self.x[index], self.y[index])
        return u, v


class Shuffled:
    """Shuffled batches and two-sided InfoNCE: what rivals change, they change here."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.bank = EmbeddingBank(len(task.x), task.config.model.dim)
        self.sampler = self._sampler(Shuffle(), shuffled_epochs=task.config.epochs, background=False)

    def _sampler(self, selector: Selector, *, shuffled_epochs: int, background: bool) -> PlannedBatchSampler:
        return PlannedBatchSampler(
            self.bank,
            batch_size=self.task.config.batch_size,
            selector=selector,
            seed=self.task.config.seed,
            temperature=self.task.temperature,
            shuffled_epochs=shuffled_epochs,
            background=background,
        )

    def batches(self, epoch: int) -> Batches:
        """The samples of each batch of an epoch."""
        self.sampler.set_epoch(epoch)
        return [np.asarray(batch) for batch in self.sampler]

    def loss(self, index: Tensor, u: Tensor, v: Tensor, *, epoch: int, step: int) -> Tensor:  # noqa: ARG002
        """What is minimised in a step of an epoch, for the samples index: (n,) and their embeddings."""
        return contrastive_loss(u, v, temperature=self.task.temperature)

    def record(self, index: Tensor, u: Tensor, v: Tensor) -> None:
        """Called after each step."""


Rival = TypeVar("Rival", bound=Shuffled)


class Recorded(Shuffled):
    """Shuffled batches whose embeddings are kept, to choose the next ones by."""

    def record(self, index: Tensor, u: Tensor, v: Tensor) -> None:
        """Keeps them in the bank."""
        self.bank.record(index, u.detach(), v.detach())

    def recorded(self, used: NDArray[np.int64], epoch: int) -> tuple[Tensor, Tensor]:
        """The embeddings in the bank, as plans are made from them: random rows stand in for what was never recorded."""
        random = np.random.default_rng([self.task.config.seed, epoch])
        return rows_of(self.bank, used, random, average_views=False)


class Planned(Recorded):
    """`Cut` as the recipe has it, planned from the bank, with its background or without."""

    def __init__(self, task: Task, *, background: bool) -> None:
        super().__init__(task)
        selector = task.config.selection.selector
        self.sampler = self._sampler(selector, shuffled_epochs=1, background=background)

    def loss(self, index: Tensor, u: Tensor, v: Tensor, *, epoch: int, step: int) -> Tensor:  # noqa: ARG002
        """With the background that the sampler draws; none where it is turned off."""
        background = self.sampler.background_of(index, step=step)
        return contrastive_loss(u, v, temperature=self.task.temperature, background=background)


class WithMemory(Shuffled):
    """Shuffled batches whose rows see the embeddings of the batches just before, too, as in XBM; from epoch 1 on."""

    def __init__(self, task: Task, *, size: int) -> None:
        super().__init__(task)
        self.memory = Memory(size, task.config.model.dim)

    def loss(self, index: Tensor, u: Tensor, v: Tensor, *, epoch: int, step: int) -> Tensor:
        """The memory's rows are further negatives on both sides, but for a sample's own."""
        if epoch == 0:  # embeddings drift fast at first, for which XBM has a warm-up
            return super().loss(index, u, v, epoch=epoch, step=step)
        own = index[:, None] == self.memory.index
        memory = self.memory
        return loss_with_negatives(u, v, memory.u, memory.v, (own, own), temperature=self.task.temperature)

    def record(self, index: Tensor, u: Tensor, v: Tensor) -> None:
        """The oldest rows go."""
        self.memory.add(index, u, v)


class MovingAverage(Shuffled):
    """Shuffled batches with SogCLR's loss."""

    def __init__(self, task: Task, *, gamma: float) -> None:
        super().__init__(task)
        self.sogclr = SogCLR(len(task.x), temperature=task.temperature, gamma=gamma)

    def loss(self, index: Tensor, u: Tensor, v: Tensor, *, epoch: int, step: int) -> Tensor:  # noqa: ARG002
        """Updates the averages, too."""
        loss: Tensor = self.sogclr(index, u, v)
        return loss


class Mined(Recorded):
    """Shuffled batches with one mined hard negative for each anchor, which all anchors of its side see.

    Mined from the bank before each epoch but the first. Negatives are embedded anew with gradient, so that a step
    embeds twice as many rows.
    """

    def batches(self, epoch: int) -> Batches:
        """Shuffled; negatives are mined here."""
        if epoch > 0:
            u, v = self.recorded(np.arange(len(self.bank)), epoch)
            self.for_u = hardest_negatives(u, v, relative_margin=RELATIVE_MARGIN)
            self.for_v = hardest_negatives(v, u, relative_margin=RELATIVE_MARGIN)
        return super().batches(epoch)

    def loss(self, index: Tensor, u: Tensor, v: Tensor, *, epoch: int, step: int) -> Tensor:
        """A negative that is an anchor's own sample does not count for it; nor does one that was not found."""
        if epoch == 0:
            return super().loss(index, u, v, epoch=epoch, step=step)
        task, in_v, in_u = self.task, self.for_u[index], self.for_v[index]
        far_u, far_v = task.towers(task.x[in_u], task.y[in_v])
        closed = tuple((index[:, None] == mined) | (mined < 0) for mined in (in_v, in_u))
        return loss_with_negatives(u, v, far_u, far_v, (closed[0], closed[1]), temperature=task.temperature)


class PlannedAndMined(Mined):
    """Batches planned by `Cut`, without a background, and one mined hard negative for each anchor."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.sampler = self._sampler(task.config.selection.selector, shuffled_epochs=1, background=False)


class Grouped(Recorded):
    """Batches of several random groups of samples that are hard for each other, as in B3.

    Groups are found by `Cut`, planned from the bank as batches of their size before each epoch but the first.
    """

    def __init__(self, task: Task, *, size: int) -> None:
        super().__init__(task)
        self.size = size

    def batches(self, epoch: int) -> Batches:
        """Samples that sit out are those that sit out in shuffled batches."""
        shuffled = super().batches(epoch)
        if epoch == 0:
            return shuffled
        used = np.sort(np.concatenate(shuffled))
        seed, (u, v) = self.task.config.seed, self.recorded(used, epoch)
        select, temperature = self.task.config.selection.selector, self.task.temperature
        plan = select(u, v, batch_size=self.size, seed=seed, epoch=epoch, temperature=temperature)
        groups = np.random.default_rng([seed, epoch]).permutation(used[plan.batches])
        return list(groups.reshape(-1, self.task.config.batch_size))


RIVALS: dict[str, Callable[[Task], Shuffled]] = {
    "shuffled": Shuffled,
    "shuffled, 11 epochs": Shuffled,
    "shuffled, memory of 256": lambda task: WithMemory(task, size=256),
    "shuffled, memory of 1,024": lambda task: WithMemory(task, size=1024),
    "shuffled, memory of 4,096": lambda task: WithMemory(task, size=4096),
    "SogCLR, γ = 0.9": lambda task: MovingAverage(task, gamma=0.9),
    "SogCLR, γ = 0.3": lambda task: MovingAverage(task, gamma=0.3),
    "one mined negative": Mined,
    "groups of 8": lambda task: Grouped(task, size=8),
    "groups of 16": lambda task: Grouped(task, size=16),
    "`Cut`, no background": lambda task: Planned(task, background=False),
    "default": lambda task: Planned(task, background=True),
    "`Cut` and one mined negative": PlannedAndMined,
}

EPOCHS = {"shuffled, 11 epochs": 11}
"""Of rivals that train longer than the others: as many seconds as the default, or more."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out of a run.

    Attributes:
        top1: retrieval on the test part.
        steps: how many were taken.
        seconds: how long the loop took, with all that a rival does between epochs.
    """

    top1: float
    steps: int
    seconds: float


def train_by(name: str, split: Split, config: Config) -> Outcome:
    """Trains by the rival of that name and scores it."""
    return trained(RIVALS[name], split, replace(config, epochs=EPOCHS.get(name, config.epochs)))[1]


def trained(make: Callable[[Task], Rival], split: Split, config: Config) -> tuple[Rival, Outcome]:
    """A rival after training, and its score."""
    train, test = split.train, split.test
    assert isinstance(train, Pairs)
    assert isinstance(test, Pairs)
    x, y, test_x, test_y = (torch.tensor(side).float() for side in (train.u, train.v, test.u, test.v))
    towers = build_model(config.model, seed=config.seed, inputs=(x.shape[1], y.shape[1]))
    optimizer = build_optimizer(towers, config.optimizer, config.peak_rate)
    rival = make(Task(config, x, y, towers))
    start = time.perf_counter()
    steps = run_loop(rival, optimizer)
    seconds = time.perf_counter() - start
    with torch.no_grad():
        score = retrieval(*(side.numpy() for side in towers(test_x, test_y)))
    return rival, Outcome(top1=score.top1, steps=steps, seconds=seconds)


def run_loop(rival: Shuffled, optimizer: torch.optim.Optimizer) -> int:
    """Trains to the end; returns how many steps were taken."""
    task, done = rival.task, 0
    config = task.config
    steps = config.epochs * (len(task.x) // config.batch_size)
    warmup = warmup_steps(config.optimizer, epochs=config.epochs, steps=steps)
    for epoch in range(config.epochs):
        for step, batch in enumerate(rival.batches(epoch)):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(done, steps=steps, warmup=warmup, peak=config.peak_rate)
            index = torch.from_numpy(batch)
            u, v = task.embed(index)
            loss = rival.loss(index, u, v, epoch=epoch, step=step)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            rival.record(index, u, v)
            done += 1
    return done
