"""What is minimised, on one process or on many."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from batchcut.losses import Background, SogCLR, contrastive_loss, gather, nt_xent

from ._config import ObjectiveSettings


class Objective(nn.Module):
    """The loss of a batch of embeddings.

    Args:
        settings: which loss.
        samples: how many the training set has.
        split: whether each process holds a part of the batch, so that rows are gathered from all before the loss.
    """

    def __init__(self, settings: ObjectiveSettings, *, samples: int, split: bool) -> None:
        super().__init__()
        self.settings = settings
        self.split = split
        self.sogclr: SogCLR | None = None
        if settings.loss == "sogclr":
            self.sogclr = SogCLR(samples, temperature=settings.temperature, gamma=settings.gamma)

    @property
    def takes_background(self) -> bool:
        """Whether old embeddings can be negatives, too; those of SogCLR are in its moving averages."""
        return self.sogclr is None

    def forward(self, index: Tensor, u: Tensor, v: Tensor, background: Background | None = None) -> Tensor:
        """The loss of u: (n, d), v: (n, d), embeddings of the samples index: (n,), and old ones beside them."""
        if self.split:
            u, v = gather(u), gather(v)
        if self.sogclr is not None:
            if self.split:
                index = _gathered(index.to(u.device)[:, None])[:, 0].long()
            loss: Tensor = self.sogclr(index, u, v)
            if not self.split:
                self._share(index)
            return loss
        if self.settings.loss == "simclr":
            return nt_xent(u, v, temperature=self.settings.temperature, background=background)
        return contrastive_loss(u, v, temperature=self.settings.temperature, background=background)

    @torch.no_grad()
    def _share(self, index: Tensor) -> None:
        """Gives all processes the averages that each has just made anew, of other samples."""
        if self.sogclr is None or not (dist.is_available() and dist.is_initialized() and self.training):
            return
        average = self.sogclr.log_average
        index = index.to(average.device)
        news = _gathered(torch.stack([index.double(), average[index].double()], dim=1))
        average[news[:, 0].long()] = news[:, 1].to(average)


def _gathered(rows: Tensor) -> Tensor:
    """Rows (n, d) of all processes, the first column of which holds indices; exact below 2⁵³."""
    first = torch.zeros(rows.shape[1], dtype=torch.float64, device=rows.device)
    first[0] = 1  # `gather` takes embeddings, none of which is zero
    return gather(rows.double() + first) - first
