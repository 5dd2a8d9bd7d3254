"""Lightning: the step returns its embeddings, the callback does the rest. Also under `torchrun --nproc-per-node=2`."""

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.data import TensorDataset

import batchcut as bc
from batchcut.integrations import PlanningCallback


class Model(pl.LightningModule):
    """Two views of a sample through one encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(32, 16)

    def training_step(self, batch: list[Tensor]) -> dict[str, Tensor]:
        """The loss, and the embeddings that it was computed from."""
        u, v = (normalize(self.encoder(view), dim=1) for view in batch)
        loss = bc.contrastive_loss(u, v, temperature=0.1)
        self.log("loss", loss, on_step=False, on_epoch=True, prog_bar=True, sync_dist=True)
        return {"loss": loss, "u": u, "v": v}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Any optimiser."""
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


if __name__ == "__main__":
    pl.seed_everything(0)
    x = torch.randn(1000, 32)
    dataset = TensorDataset(x, x + 0.5 * torch.randn(1000, 32))

    planning = PlanningCallback(dim=16, batch_size=32, selector=bc.Cut(temperature=0.1))
    trainer = pl.Trainer(
        max_epochs=4, accelerator="cpu", callbacks=[planning], logger=False, enable_checkpointing=False
    )
    trainer.fit(Model(), planning.loader(dataset, num_workers=0))

    if planning.sampler is not None and planning.sampler.plan is not None:
        print("mean loss of the batches as planned:", round(planning.sampler.plan.mean_loss, 3))
