"""A Lightning run that says which samples each step was given; as a script, in two processes."""

import sys
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint
from tests.integrations._runs import DIM, B, Encoder, Pairs, end_together, leave
from torch import Tensor
from torch.utils.data import DataLoader

import batchcut as bc
from batchcut.integrations import PlanningCallback

Seen = list[tuple[int, int, list[int]]]


class Model(pl.LightningModule):
    """Two views of a sample through one encoder."""

    def __init__(self, lr: float = 0.5) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.lr = lr
        self.seen: Seen = []

    def training_step(self, batch: tuple[Tensor, Tensor, Tensor], batch_idx: int) -> Any:
        x, y, index = batch
        self.seen.append((self.current_epoch, batch_idx, index.tolist()))
        u, v = self.encoder(x), self.encoder(y)
        return {"loss": bc.contrastive_loss(u, v, temperature=0.1), "u": u, "v": v}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), self.lr)


class SaveEachStep(Checkpoint):
    """A checkpoint after each batch, when `ModelCheckpoint` makes them, but with no state of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        trainer.save_checkpoint(self.folder / f"{len(pl_module.seen)}.ckpt")


def trainer(*callbacks: pl.Callback, folder: Path | None = None, **options: Any) -> pl.Trainer:
    if folder is not None:
        callbacks = (*callbacks, SaveEachStep(folder))
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return pl.Trainer(callbacks=list(callbacks), **{"enable_checkpointing": folder is not None, **quiet, **options})


def fit(
    *,
    folder: Path | None = None,
    resume: Path | None = None,
    workers: int = 0,
    mode: Any = "whole",
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> tuple[Seen, PlanningCallback]:
    """Three epochs of a fresh model; what its steps saw."""
    loader = bc.PlannedLoader(Pairs(), batch_size=B, num_workers=workers, **settings)
    model, planning = Model(), PlanningCallback(loader, mode=mode)
    run = trainer(planning, folder=folder, **{"max_epochs": 3, **(options or {})})
    run.fit(model, loader, ckpt_path=None if resume is None else str(resume))
    return model.seen, planning


def refusal(options: dict[str, Any]) -> str:
    """What a sampler says that nobody told about the processes."""
    sampler = bc.PlannedBatchSampler(bc.EmbeddingBank(len(Pairs()), DIM), batch_size=B)
    try:
        trainer(max_epochs=1, **options).fit(Model(), DataLoader(Pairs(), batch_sampler=sampler))
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")  # Those of the frameworks are the business of the runs in one process.
    torch.set_num_threads(1)
    two = {"strategy": "ddp", "devices": 2}
    outcome: dict[str, Any] = {}
    kinds: dict[str, dict[str, Any]] = {"whole": {}, "short": {"drop_last": False}, "split": {"mode": "split"}}
    for name, settings in kinds.items():
        seen, planning = fit(folder=folder / name, options=two, **settings)
        plan = planning.sampler.plan
        outcome[name] = {"seen": seen, "plan": None if plan is None else [row.tolist() for row in plan]}
    outcome["resumed"] = fit(resume=folder / "whole" / "4.ckpt", options=two)[0]
    outcome["default"] = refusal(two)
    outcome["left alone"] = refusal(two | {"use_distributed_sampler": False})
    leave(folder, outcome)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    end_together()
