"""Lightning: the step returns its embeddings, the callback does the rest. Also under torchrun."""

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import batchcut as bc
from batchcut.integrations import PlanningCallback


class Model(pl.LightningModule):
    """Two views of a sample through one encoder."""

    def __init__(self, loader: bc.PlannedLoader) -> None:
        super().__init__()
        self.loader = loader
        self.encoder = nn.Linear(32, 16)

    def training_step(self, batch: list[Tensor]) -> dict[str, Tensor]:
        """The loss, and the embeddings that it was computed from."""
        u, v = (self.encoder(view) for view in batch)
        temperature, background = self.loader.temperature, self.loader.background
        loss = bc.contrastive_loss(u, v, temperature=temperature, background=background)
        self.log("loss", loss, on_step=False, on_epoch=True, prog_bar=True, sync_dist=True)
        return {"loss": loss, "u": u, "v": v}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Any optimiser."""
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


if __name__ == "__main__":
    pl.seed_everything(0)
    x = torch.randn(1000, 32)
    dataset = TensorDataset(x, x + 0.5 * torch.randn(1000, 32))

    loader = bc.PlannedLoader(dataset, batch_size=32, temperature=0.1, num_workers=0)
    trainer = pl.Trainer(
        max_epochs=4,
        accelerator="cpu",
        callbacks=[PlanningCallback(loader)],
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(Model(loader), loader)

    if loader.plan is not None:
        print("mean loss of the batches as planned:", round(loader.plan.mean_loss, 3))
