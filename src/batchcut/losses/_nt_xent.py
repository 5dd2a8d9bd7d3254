"""SimCLR's loss."""

import torch
import torch.nn.functional as F
from torch import Tensor

from batchcut._conventions import DEFAULT_TEMPERATURE

from ._contrastive import similarities, unit_rows
from ._validate import check_pair, check_temperature


def nt_xent(u: Tensor, v: Tensor, *, temperature: float | Tensor = DEFAULT_TEMPERATURE) -> Tensor:
    r"""SimCLR's loss of u: (n, d) and v: (n, d), two views of n samples: cross entropy over all 2n views.

    Rows are scaled to unit length, and the mean is over all views. With z the 2n rows of `u` and `v`, and p(i) the
    other view of i,

    .. math::
        \frac1{2n} \sum_{i=1}^{2n} -\log \frac{e^{z_i \cdot z_{p(i)} / \tau}}{\sum_{j \ne i} e^{z_i \cdot z_j / \tau}}

    (Chen et al. 2020, eq. 1). Unlike `contrastive_loss`, which is CLIP's, it also contrasts views of the same side.
    """
    check_pair(u, v)
    views = unit_rows(torch.cat([u, v]))
    logits = similarities(views, views, check_temperature(temperature))
    logits = logits.masked_fill(torch.eye(len(views), dtype=torch.bool, device=views.device), -torch.inf)
    partner = torch.arange(len(views), device=views.device).roll(len(u))
    return F.cross_entropy(logits, partner)
