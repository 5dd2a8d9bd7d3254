"""Lightning: a callback that shares the batches of a `PlannedLoader` and records the embeddings."""

from collections.abc import Mapping
from typing import Any, Literal

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from batchcut._errors import invalid, wrong_type
from batchcut.sampling import PlannedBatchSampler, PlannedLoader, Sharding, figures_of
from batchcut.selection import BatchPlan


class PlanningCallback(Callback):
    """Plans the training batches of a Lightning `Trainer` from the embeddings that its `training_step` returns.

    The step sees batches as the data set has them, and returns a dictionary with the loss and the embeddings of the
    batch: `{"loss": loss, "u": u, "v": v}`. Give the trainer both the loader and the callback:

        loader = PlannedLoader(dataset, batch_size=64, temperature=0.1, num_workers=4)
        trainer = Trainer(callbacks=[PlanningCallback(loader)])
        trainer.fit(model, loader)

    A data module of your own can give the loader in its `train_dataloader`. With more than one process nothing need be
    set: a `PlannedLoader` is no `DataLoader`, so that Lightning leaves it alone whatever `use_distributed_sampler` is,
    and it learns from the callback which process this is. Lightning's checkpoints hold the plan, the place in the epoch
    and the bank; a run that goes on from one gets the same remaining batches. The figures of each plan (`plan_loss`,
    `plan_effective_size` and others) go to the trainer's loggers.

    Args:
        loader: the training loader, with the settings of your choice; its batch size is that of one process, and of all
            processes together where mode="split".
        mode: "whole", each process takes other batches; or "split", each takes its part of every batch, for losses that
            gather negatives from all processes.
    """

    def __init__(self, loader: PlannedLoader, *, mode: Literal["whole", "split"] = "whole") -> None:
        if not isinstance(loader, PlannedLoader):
            raise wrong_type("loader", "be a PlannedLoader", loader)
        if mode not in ("whole", "split"):
            raise invalid("mode", "be 'whole' or 'split'", repr(mode))
        self.loader = loader
        self.mode = mode
        self._logged: BatchPlan | None = None

    @property
    def sampler(self) -> PlannedBatchSampler:
        """The sampler of this process, with the last plan in `sampler.plan`."""
        return self.loader.sampler

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:  # noqa: ARG002
        """Tells the loader which process this is, as the trainer knows by now."""
        if stage == "fit":
            # What Lightning would give a DistributedSampler. Where a strategy splits the model, it is not the place in
            # the process group, and the sampler refuses to plan.
            place = trainer.distributed_sampler_kwargs or {"num_replicas": 1, "rank": 0}
            self.loader.share(Sharding(rank=place["rank"], world_size=place["num_replicas"], mode=self.mode))

    def on_load_checkpoint(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,  # noqa: ARG002
        checkpoint: dict[str, Any],
    ) -> None:
        """Gives the loader its state, which Lightning saves always and gives back in the middle of an epoch alone."""
        if trainer.state.fn != TrainerFn.FITTING:
            return
        for state in checkpoint["loops"]["fit_loop"]["state_dict"].get("combined_loader", []):
            self.loader.load_state_dict(state)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        """Refuses a trainer that trains on another loader."""
        if trainer.train_dataloader is not self.loader:
            raise invalid("train_dataloaders", "be the loader of the PlanningCallback", type(trainer.train_dataloader))

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,  # noqa: ARG002
        outputs: Any,
        batch: Any,  # noqa: ARG002
        batch_idx: int,  # noqa: ARG002
    ) -> None:
        """Logs the figures of a plan once it is trained on, and records what the step returned."""
        if self.sampler.plan is not self._logged:
            self._logged = self.sampler.plan
            figures = figures_of(self.sampler) if trainer.is_global_zero else {}
            for logger in trainer.loggers if figures else []:
                logger.log_metrics(figures, step=trainer.global_step)
        if outputs is not None:  # A step that returns nothing is skipped by Lightning too.
            self.loader.record(*_embeddings(outputs))


def _embeddings(outputs: Any) -> tuple[Tensor, Tensor]:
    if isinstance(outputs, Mapping) and {"u", "v"} <= outputs.keys():
        return outputs["u"], outputs["v"]
    got = f"a dictionary with {sorted(outputs)}" if isinstance(outputs, Mapping) else type(outputs).__name__
    rule = "be a dictionary with 'loss' and the embeddings of the batch, 'u' and 'v'"
    raise invalid("the return value of training_step", rule, got)
