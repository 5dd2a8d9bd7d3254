"""The two-sided contrastive loss: CLIP's, and the paper's own definition."""

import torch
from torch import Tensor

from batchcut._conventions import DEFAULT_TEMPERATURE

from ._background import Background, check_background, log_denominators
from ._similarity import similarities, unit_rows
from ._validate import check_pair, check_temperature


def contrastive_loss(
    u: Tensor,
    v: Tensor,
    *,
    temperature: float | Tensor = DEFAULT_TEMPERATURE,
    background: Background | None = None,
) -> Tensor:
    """CLIP's loss, two-sided InfoNCE of u: (n, d) and v: (n, d), where row i of both is a positive pair.

    Rows are scaled to unit length, and the mean is over both directions:

        − 1/(2n) Σ_i log( e^{u_i·v_i/τ} / Σ_j e^{u_i·v_j/τ} )
        − 1/(2n) Σ_i log( e^{v_i·u_i/τ} / Σ_j e^{v_i·u_j/τ} )

    So it equals CLIP's; SimCLR's `nt_xent` also contrasts views of one side. The paper's own definition, which adds the
    directions and takes rows as they are, is `losses.paper.contrastive_loss`: twice this one for unit rows.

    Args:
        u: embeddings of one side of the pairs.
        v: embeddings of the other side.
        temperature: τ, a number above 0, or a tensor that holds one if it is learned.
        background: further candidates of every row, such as `loader.background`; None: those of the batch alone.

    Returns:
        The loss, a scalar; in float32 at least, whatever the dtype of the embeddings.
    """
    check_pair(u, v)
    check_background(background, u)
    u, v, temperature = unit_rows(u), unit_rows(v), check_temperature(temperature)
    logits = similarities(u, v, temperature)
    if background is None:
        return two_sided_loss(logits) / 2
    sides, old = torch.stack([u, v]), torch.stack([background.v.to(u), background.u.to(u)])
    positives = torch.eye(len(u), dtype=torch.bool, device=u.device)
    both = torch.stack([logits, logits.mT])
    denominators = log_denominators(both, positives, sides, old, background, temperature)
    return denominators.mean() - logits.diagonal().mean()


def paper_contrastive_loss(u: Tensor, v: Tensor, *, temperature: float | Tensor = 1.0) -> Tensor:
    """The paper's L of u: (n, d) and v: (n, d): two-sided InfoNCE, directions added, rows taken as they are.

        L(U, V) = − 1/n Σ_i log( e^{u_i·v_i/τ} / Σ_j e^{u_i·v_j/τ} )
                  − 1/n Σ_i log( e^{v_i·u_i/τ} / Σ_j e^{v_i·u_j/τ} )

    (`eq:full_CLIP_loss`, with the temperature τ that the paper sets to 1). For unit rows it is twice
    `losses.contrastive_loss`, and so twice CLIP's.
    """
    check_pair(u, v)
    return two_sided_loss(similarities(u, v, check_temperature(temperature)))


def two_sided_loss(logits: Tensor) -> Tensor:
    """The loss as a function of the similarities X: (..., n, n), the paper's L^M(X) (`lem:loss_M_is_lip_and_bdd`)."""
    positive = logits.diagonal(dim1=-2, dim2=-1)
    forward = torch.logsumexp(logits, dim=-1) - positive
    backward = torch.logsumexp(logits, dim=-2) - positive
    return (forward + backward).mean(dim=-1)
