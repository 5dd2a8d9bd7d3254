"""SimCLR's loss."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ._contrastive import at_least_float32, similarities
from ._validate import check_pair, check_temperature


def nt_xent(u: Tensor, v: Tensor, *, temperature: float | Tensor = 0.5) -> Tensor:
    r"""Normalised temperature-scaled cross entropy over 2n views; u: (n, d), v: (n, d) are two views of n samples.

    With z the 2n rows of `u` and `v`, scaled to unit length, and p(i) the other view of i,

    .. math::
        \frac1{2n} \sum_{i=1}^{2n} -\log \frac{e^{z_i \cdot z_{p(i)} / \tau}}{\sum_{j \ne i} e^{z_i \cdot z_j / \tau}}

    (Chen et al. 2020, eq. 1). Unlike `contrastive_loss` it also contrasts views of the same side, normalises, and
    takes the mean over both sides.
    """
    check_pair(u, v)
    views = F.normalize(at_least_float32(torch.cat([u, v])), dim=1)
    logits = similarities(views, views, check_temperature(temperature))
    logits = logits.masked_fill(torch.eye(len(views), dtype=torch.bool, device=views.device), -torch.inf)
    partner = torch.arange(len(views), device=views.device).roll(len(u))
    return F.cross_entropy(logits, partner)
