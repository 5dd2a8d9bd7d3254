"""The loop: plan, step, record; score and keep what came out."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from batchcut._errors import invalid
from batchcut._random import Stream
from batchcut.data import Split
from batchcut.sampling import EmbeddingBank

from ._batches import Batches
from ._checkpoint import save_checkpoint, snapshot
from ._config import Config
from ._data import Indices, sources
from ._folder import Diary, Observer, RunFolder
from ._model import build_model
from ._objective import Objective
from ._optimizer import build_optimizer, learning_rate, warmup_steps
from ._random import generator
from ._score import embed, renew_statistics, score

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class DivergedError(ArithmeticError):
    """The loss or a weight is no longer a finite number."""


class Trainer:
    """A run in progress; `run` takes it to its end from wherever it is.

    Attributes:
        epoch: the epoch that comes next or is under way.
        position: how many of its batches are done.
        step: how many steps were taken in all.
        steps: how many there are to take.
        scores: the last ones.
        pending: the losses of the steps since the last line of metrics.
        batch_losses: those of the batches of this epoch.
    """

    def __init__(self, config: Config, split: Split, fabric: "Fabric", folder: RunFolder, observe: Observer) -> None:
        self.config, self.fabric, self.folder = config, fabric, folder
        self.leads = fabric.global_rank == 0  # the process that writes
        self.diary = Diary(observe, leads=self.leads)
        self.train_set, self.test_set = sources(split, config.data, config.views)
        samples = len(self.train_set)
        if samples < config.batch_size:
            raise invalid("batch_size", f"be at most the number of training samples, {samples}", config.batch_size)
        self.bare_model = build_model(config.model, seed=config.seed, inputs=self.train_set.inputs)
        self.bare_optimizer = build_optimizer(self.bare_model, config.optimizer, config.peak_rate)
        self.model, self.optimizer = fabric.setup(self.bare_model, self.bare_optimizer)
        split_batches = fabric.world_size > 1 and config.selection.sharing == "split"
        self.objective = Objective(config.objective, samples=samples, split=split_batches).to(fabric.device)
        self.batches = Batches(
            config,
            samples=samples,
            device=fabric.device,
            rank=fabric.global_rank,
            world_size=fabric.world_size,
            views=self.train_set.random,
        )
        self.steps = self.batches.steps(config.optimizer.accumulate)
        self.warmup = warmup_steps(config.optimizer, epochs=config.epochs, steps=self.steps)
        self.epoch = self.position = self.step = 0
        self.scores: dict[str, float] = {}
        self.pending: list[Tensor] = []
        self.batch_losses: list[Tensor] = []

    def run(self) -> None:
        """Trains to the end."""
        if self.step == 0:
            self._keep_embeddings("initial")
        while self.epoch < self.config.epochs:
            with self.diary.timed("total"):
                self._train_epoch()
            self._tell_seconds()
        self._keep_embeddings("final")

    def _train_epoch(self) -> None:
        with self.diary.timed("planning"):
            batches = self._plan()
        self.model.train()
        accumulate = self.config.optimizer.accumulate
        for first in range(0, len(batches), accumulate):
            if first:
                self._pause()
            self._take_step(batches[first : first + accumulate])
        self._tell_losses()
        self.epoch, self.position = self.epoch + 1, 0
        self._pause()

    def _plan(self) -> list[Indices]:
        """The batches that remain of the epoch; a plan that was made for them is kept."""
        epoch = self.batches.of_epoch(self.epoch, self._refill)
        if (plan := epoch.plan) is not None:
            if self.leads:
                self.folder.save_plan(plan, self.batches.bank, shown=self.config.keeping.embeddings)
            event: dict[str, Any] = {"method": plan.method, "mean_loss": plan.mean_loss}
            event["shuffled_loss"] = epoch.shuffled_loss
            if plan.effective is not None:
                event["effective_size"] = plan.effective.facts
            self.diary.tell({"event": "plan", "epoch": self.epoch} | event)
        elif self.position == 0 and self.batches.sampler.plan is None:
            self.diary.tell({"event": "plan", "epoch": self.epoch, "method": "Shuffle"})
        return epoch.batches

    def _refill(self, bank: EmbeddingBank) -> None:
        """Records the embeddings of the whole training set as they are now; each process does its share."""
        as_trained = self.config.selection.planned_from == "training-pass"
        everything = np.arange(self.fabric.global_rank, len(self.train_set), self.fabric.world_size)
        size = self.config.batch_size if as_trained else self.config.evaluation.batch_size
        self.bare_model.train(as_trained)
        with torch.no_grad(), self.fabric.autocast():
            # A last part of one sample would have no spread for a batch norm in training mode.
            for part, index in enumerate(np.array_split(everything, -(-len(everything) // size))):
                bank.record(torch.from_numpy(index), *self.bare_model(*self._sides(Stream.PASS, index, part)))
        self.bare_model.train()

    def _sides(self, stream: Stream, index: Indices, place: int) -> tuple[Tensor, Tensor]:
        """Both sides of training samples; their views are drawn for this place of this epoch and this process."""
        numbers = (stream, self.config.seed, self.epoch, place, self.fabric.global_rank)
        return self.train_set.sides(index, self.fabric.device, *numbers)

    def _take_step(self, batches: list[Indices]) -> None:
        """One step of the optimiser by the mean gradient of some batches."""
        rate = learning_rate(self.step, steps=self.steps, warmup=self.warmup, peak=self.config.peak_rate)
        for parameters in self.bare_optimizer.param_groups:
            parameters["lr"] = rate
        losses = []
        for place, index in enumerate(batches):
            with self.fabric.no_backward_sync(self.model, enabled=place + 1 < len(batches)):
                loss = self._loss(index)
                self.fabric.backward(loss / len(batches) if len(batches) > 1 else loss)
            losses.append(loss.detach())
            self.position += 1
        if self.config.optimizer.clip is not None:
            self.fabric.clip_gradients(self.model, self.optimizer, max_norm=self.config.optimizer.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        self.pending.append(losses[0] if len(losses) == 1 else torch.stack(losses).mean())
        self.batch_losses += losses
        self.diary.show({"event": "progress", "epoch": self.epoch, "step": self.step, "steps": self.steps})
        if self.step % self.config.keeping.log_every == 0 or self.step == self.steps:
            self._tell_loss(rate)

    def _loss(self, index: Indices) -> Tensor:
        """The loss of a batch, whose embeddings are recorded to plan from."""
        samples = torch.from_numpy(index)
        u, v = self.model(*self._sides(Stream.VIEWS, index, self.position))
        background = None
        if self.objective.takes_background:
            background = self.batches.sampler.background_of(samples, step=self.position)
        try:
            loss: Tensor = self.objective(samples, u, v, background)
        except ValueError as error:
            if bool(((u.norm(dim=1) > 0) & (v.norm(dim=1) > 0)).all()):  # which NaN is not
                raise
            raise self._diverged("an embedding is zero or not finite") from error
        if self.batches.records:
            self.batches.record(samples, u.detach(), v.detach())
        return loss

    def _tell_loss(self, rate: float) -> None:
        """Writes the mean loss of the steps since the last such line."""
        mean: Any = self.fabric.all_reduce(torch.stack(self.pending).mean(), reduce_op="mean")
        loss = float(mean)
        self.pending.clear()
        if not np.isfinite(loss):
            raise self._diverged(f"the loss is {loss}")
        self.diary.tell({"event": "step", "epoch": self.epoch, "step": self.step, "loss": loss, "lr": rate})

    def _tell_losses(self) -> None:
        """Writes the loss of each batch that this process has had in the epoch, as it was when it was trained on."""
        losses = [float(f"{loss:.5g}") for loss in torch.stack(self.batch_losses).tolist()]
        self.batch_losses.clear()
        self.diary.write({"event": "losses", "epoch": self.epoch, "step": self.step, "losses": losses})

    def _tell_seconds(self) -> None:
        self.diary.tell_seconds(epoch=self.epoch if self.position else self.epoch - 1, step=self.step)

    def _pause(self) -> None:
        """Scores the model and saves a checkpoint, where it is time to: between two steps, or between two epochs."""
        scoring, keeping = self.config.evaluation, self.config.keeping
        if self._due(scoring.every_epochs, scoring.every_steps):
            with self.diary.timed("evaluation"):
                self._score()
        if self._due(keeping.checkpoint_epochs, keeping.checkpoint_steps):
            with self.diary.timed("checkpoint"):
                self._save()

    def _due(self, every_epochs: int, every_steps: int) -> bool:
        """Whether so many epochs, or so many steps, have just ended; 0 stands for never, but for the end of the run."""
        epochs = self.position == 0 and every_epochs > 0 and self.epoch % every_epochs == 0
        steps = every_steps > 0 and self.step % every_steps == 0
        return epochs or steps or self.epoch == self.config.epochs

    def _score(self) -> None:
        scoring, seed, device = self.config.evaluation, self.config.seed, self.fabric.device
        if scoring.statistics:
            with self.fabric.autocast():
                renew_statistics(self.bare_model, self.train_set, device, seed=seed, samples=scoring.statistics)
        if self.leads:
            how = {"seed": seed, "draws": scoring.draws, "batch_size": scoring.batch_size}
            with self.fabric.autocast():
                self.scores = score(self.bare_model, self.test_set, device, **how)
            self.diary.tell({"event": "evaluation", "epoch": self.epoch, "step": self.step} | self.scores)
        self.fabric.barrier()

    def _save(self) -> None:
        """Writes a checkpoint, after all lines that belong before it."""
        if not all(bool(torch.isfinite(weight).all()) for weight in self.bare_model.parameters()):
            raise self._diverged("a weight is not finite")
        if self.fabric.world_size > 1 and self.batches.records:
            self.batches.sampler.join()
        self._tell_seconds()  # those of the checkpoint itself are in the next line
        if self.leads:
            checkpoint = snapshot(self, self.diary.lengths())
            save_checkpoint(self.folder.checkpoints, checkpoint, keep=self.config.keeping.checkpoints)
        self.fabric.barrier()

    def _keep_embeddings(self, name: str) -> None:
        """Writes embeddings of some training samples, the same ones each time."""
        count = min(self.config.keeping.embeddings, len(self.train_set))
        if not (self.leads and count):
            return
        numbers = (Stream.KEPT, self.config.seed)
        index = torch.randperm(len(self.train_set), generator=generator(*numbers))[:count].sort().values
        size = self.config.evaluation.batch_size
        with self.fabric.autocast():
            u, v = embed(self.bare_model, self.train_set, index.numpy(), self.fabric.device, *numbers, batch_size=size)
        self.folder.save_embeddings(name, {"index": index, "u": u.half(), "v": v.half()})

    def _diverged(self, what: str) -> DivergedError:
        return DivergedError(
            f"training has diverged: {what} after step {self.step} in epoch {self.epoch}; checkpoints and metrics up "
            f"to there are in {self.folder.path}. A lower optimizer.learning_rate, now {self.config.peak_rate:g}, or "
            "optimizer.clip may help"
        )
