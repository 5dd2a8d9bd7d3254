"""The batches of each epoch, for this process: planned, sampled, and kept."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, Sharding, momentum_for, shuffled_loss
from batchcut.selection import BatchPlan

from ._config import Config
from ._data import Indices

Refill = Callable[[EmbeddingBank], None]


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The batches that remain of an epoch.

    Attributes:
        batches: the samples of each.
        plan: a plan made just now; None where there was nothing to plan, or the batches are older.
        shuffled_loss: the mean loss of shuffled batches by the embeddings that the bank holds.
        seconds: how long it took.
    """

    batches: list[Indices]
    plan: BatchPlan | None
    shuffled_loss: float | None
    seconds: float


class Batches:
    """Plans each epoch from the bank, or shuffles.

    Args:
        config: the settings of the run.
        samples: how many the training set has.
        device: where the bank lives.
        rank: this process.
        world_size: how many there are.
        views: whether the sides of samples are random views.
    """

    def __init__(
        self, config: Config, *, samples: int, device: torch.device, rank: int, world_size: int, views: bool
    ) -> None:
        self.settings = config.selection
        self.averages = views and self.settings.average_views
        momentum = momentum_for(average_views=self.averages and self.records)
        self.bank = EmbeddingBank(samples, config.model.dim, device=device, momentum=momentum)
        self.sharding = Sharding(rank=rank, world_size=world_size, mode=self.settings.sharing)
        self.epochs = config.epochs
        self.sampler = PlannedBatchSampler(
            self.bank,
            batch_size=config.batch_size,
            selector=self.settings.selector,
            seed=config.seed,
            temperature=config.objective.temperature,
            drop_last=self.settings.drop_last,
            average_views=self.averages,
            replan_every=self.settings.replan_every,
            shuffled_epochs=self.settings.first_planned if self.settings.plans else config.epochs,
            plan_ahead=self.settings.plan_ahead,
            background=self.settings.background,
            sharding=self.sharding,
        )

    @property
    def records(self) -> bool:
        """Whether embeddings are recorded while training."""
        return self.settings.plans and self.settings.planned_from == "bank"

    def steps(self, accumulate: int) -> int:
        """How many steps of so many batches each the whole run takes."""
        shuffled = min(self.epochs, self.sampler.shuffled_epochs)  # all epochs before it are alike, and all after
        kinds = ((0, shuffled), (self.epochs - 1, self.epochs - shuffled))
        return sum(count * -(-self.sampler.length_of(epoch) // accumulate) for epoch, count in kinds)

    def of_epoch(self, epoch: int, refill: Refill) -> Epoch:
        """The batches that remain of an epoch; `refill` fills the bank where a pass is asked for."""
        started = time.perf_counter()
        self.sampler.set_epoch(epoch)
        if self.sampler.will_plan and not self.records:
            refill(self.bank)
        before = self.sampler.plan
        batches = [np.asarray(batch) for batch in self.sampler]
        plan, shuffled = self.sampler.plan if self.sampler.plan is not before else None, None
        if plan is not None and self.sharding.rank == 0:
            plan = self.sampler.measured_plan() or plan
            shuffled = shuffled_loss(self.bank, plan, average_views=self.averages)
        return Epoch(batches=batches, plan=plan, shuffled_loss=shuffled, seconds=time.perf_counter() - started)

    def record(self, index: Tensor, u: Tensor, v: Tensor) -> None:
        """Keeps the embeddings of a batch to plan the next epoch by; after the last one there is none."""
        keep = self.sampler.record if self.sampler.epoch + 1 < self.epochs else self.bank.record
        keep(index, u, v)

    def state(self, position: int | None) -> tuple[dict[str, object], dict[str, Tensor]]:
        """Plain values and tensors to go on from after so many batches of the epoch; None: after all."""
        facts = self.sampler.state_dict(position=position)
        packed = {name: facts.pop(name) for name in ("batches", "ahead")}
        facts["planned"] = packed["batches"] is not None
        facts["clock"] = self.bank.clock
        facts["cosines"] = self.bank.state_dict()["cosines"]
        tensors = {
            name: torch.frombuffer(bytearray(content), dtype=torch.uint8)
            for name, content in packed.items()
            if content is not None
        }
        if self.settings.plans:
            tensors |= {name: getattr(self.bank, name) for name in ("u", "v", "recorded_at")}
        return facts, tensors

    def load_state(self, facts: dict[str, object], tensors: dict[str, Tensor]) -> None:
        """Goes on from a state."""
        if self.settings.plans:
            numbers = {name: facts[name] for name in ("clock", "cosines")}
            self.bank.load_state_dict({name: tensors[name] for name in ("u", "v", "recorded_at")} | numbers)
        batches = tensors["batches"].numpy().tobytes() if facts["planned"] else None
        ahead = tensors["ahead"].numpy().tobytes() if "ahead" in tensors else None
        self.sampler.load_state_dict(facts | {"batches": batches, "ahead": ahead})
