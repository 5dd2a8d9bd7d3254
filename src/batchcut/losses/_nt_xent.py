"""SimCLR's loss."""

import torch
import torch.nn.functional as F
from torch import Tensor

from batchcut._conventions import DEFAULT_TEMPERATURE

from ._background import Background, check_background, log_denominators
from ._similarity import similarities, unit_rows
from ._validate import check_pair, check_temperature


def nt_xent(
    u: Tensor,
    v: Tensor,
    *,
    temperature: float | Tensor = DEFAULT_TEMPERATURE,
    background: Background | None = None,
) -> Tensor:
    """SimCLR's loss of u: (n, d) and v: (n, d), two views of n samples: cross entropy over all 2n views.

    Rows are scaled to unit length, and the mean is over all views. With z the 2n rows of `u` and `v`, and p(i) the
    other view of i,

        − 1/(2n) Σ_{i=1..2n} log( e^{z_i·z_p(i)/τ} / Σ_{j≠i} e^{z_i·z_j/τ} )

    (Chen et al. 2020, eq. 1). Unlike `contrastive_loss`, which is CLIP's, it also contrasts views of the same side.

    Args:
        u: one view of each sample.
        v: the other view.
        temperature: τ, a number above 0, or a tensor that holds one if it is learned.
        background: further candidates of every view, such as `loader.background`; None: those of the batch alone.
    """
    check_pair(u, v)
    check_background(background, u)
    views, temperature = unit_rows(torch.cat([u, v])), check_temperature(temperature)
    logits = similarities(views, views, temperature)
    logits = logits.masked_fill(torch.eye(len(views), dtype=torch.bool, device=views.device), -torch.inf)
    partner = torch.arange(len(views), device=views.device).roll(len(u))
    if background is None:
        return F.cross_entropy(logits, partner)
    same_sample = torch.eye(len(u), dtype=torch.bool, device=u.device).repeat(2, 2)
    old = torch.cat([background.u.to(views), background.v.to(views)])[None]
    denominators = log_denominators(logits[None], same_sample, views[None], old, background, temperature)
    return denominators.mean() - logits.gather(1, partner[:, None]).mean()
