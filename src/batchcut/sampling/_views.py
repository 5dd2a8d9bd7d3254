"""One embedding for a sample of which two random views were seen."""

from torch import Tensor
from torch.nn.functional import normalize

_NOTHING = 1e-6


def mean_of_views(u: Tensor, v: Tensor) -> Tensor:
    """The unit vectors (n, d) along u_i + v_i; u_i itself where the two views point in opposite directions.

    With views x of sample k and y of sample l drawn anew each time, the product of their embeddings is, on average,
    that of the two samples' mean embeddings. (u_k + v_k)·(u_l + v_l) / 4 estimates it from all four products, which
    are the four kinds of negatives in the loss of SimCLR, where u_k·v_l is one of them.

    Args:
        u: (n, d) unit embeddings of one view each.
        v: (n, d) those of the other.
    """
    total = u.float() + v.float()
    nothing = total.norm(dim=1, keepdim=True) < _NOTHING
    return normalize(total.where(~nothing, u.float()), dim=1).to(u.dtype)
