"""Contrastive losses: pure functions on (n, d) tensors, and thin modules over them.

One convention for all: rows are scaled to unit length, the mean is over all anchors (so over both directions), and the
temperature is 0.1 unless given. `contrastive_loss` then is CLIP's loss, `nt_xent` SimCLR's. The paper's own definitions
are in `losses.paper`.
"""

from . import paper as paper
from ._background import Background as Background
from ._contrastive import contrastive_loss as contrastive_loss
from ._full_batch import full_batch_loss as full_batch_loss
from ._gather import gather as gather
from ._gather import gathered_contrastive_loss as gathered_contrastive_loss
from ._minibatch import minibatch_loss as minibatch_loss
from ._nt_xent import nt_xent as nt_xent
from ._ordered import order_weights as order_weights
from ._sogclr import SogCLR as SogCLR
from ._sogclr import sogclr_loss as sogclr_loss

# isort: split
# For our other packages.
from ._background import log_denominators as log_denominators
from ._validate import check_embeddings as check_embeddings
from ._validate import check_form as check_form
from ._validate import check_pair as check_pair

__all__ = [
    "Background",
    "SogCLR",
    "contrastive_loss",
    "full_batch_loss",
    "gather",
    "gathered_contrastive_loss",
    "minibatch_loss",
    "nt_xent",
    "order_weights",
    "sogclr_loss",
]
