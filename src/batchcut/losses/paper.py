"""The paper's own definitions: rows as they are, the two directions added, τ = 1 unless given.

For unit rows each is twice the loss of the same name in `batchcut.losses`, where there is one: those follow CLIP and
SimCLR.
"""

from ._contrastive import paper_contrastive_loss as contrastive_loss
from ._contrastive import two_sided_loss as two_sided_loss
from ._full_batch import paper_full_batch_loss as full_batch_loss
from ._minibatch import paper_minibatch_loss as minibatch_loss
from ._ordered import ordered_loss as ordered_loss

__all__ = ["contrastive_loss", "full_batch_loss", "minibatch_loss", "ordered_loss", "two_sided_loss"]
