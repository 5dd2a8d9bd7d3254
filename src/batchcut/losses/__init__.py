"""Contrastive losses: pure functions on (n, d) tensors, and thin modules over them."""

from ._contrastive import contrastive_loss as contrastive_loss
from ._contrastive import two_sided_loss as two_sided_loss
from ._full_batch import full_batch_loss as full_batch_loss
from ._gather import gather as gather
from ._gather import gathered_contrastive_loss as gathered_contrastive_loss
from ._minibatch import minibatch_loss as minibatch_loss
from ._nt_xent import nt_xent as nt_xent
from ._ordered import order_weights as order_weights
from ._ordered import ordered_loss as ordered_loss
from ._sogclr import SogCLR as SogCLR
from ._sogclr import sogclr_loss as sogclr_loss
from ._validate import check_embeddings as check_embeddings
from ._validate import check_pair as check_pair
