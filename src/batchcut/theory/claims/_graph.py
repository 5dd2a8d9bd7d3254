"""The lower bound that turns batches into a graph."""

import torch
from torch import Tensor

from batchcut.losses import two_sided_loss
from batchcut.theory._adversary import into_box, largest
from batchcut.theory._bounds import jensen_bound
from batchcut.theory._check import Check, claim, worst


@claim("subsec:spectral_clustering")
def jensen() -> Check:
    """Ascent on the bound minus the loss, at several temperatures."""
    found = {}
    for size in (2, 3, 8, 16):
        for temperature in (1.0, 0.1):
            generator = torch.Generator().manual_seed(size)
            start = 2 * torch.rand(32, size, size, dtype=torch.float64, generator=generator) - 1

            def excess(x: Tensor, temperature: float = temperature) -> Tensor:
                return jensen_bound(x / temperature) - two_sided_loss(x / temperature)

            found[f"B={size} τ={temperature}"] = largest(excess, start, into_box)
    return Check(
        label="subsec:spectral_clustering",
        claim="the sum of the weights within a batch, ÷ B(B-1), is at most its loss (largest excess)",
        measured=worst(found.values()),
        relation="<=",
        bound=0.0,
        tolerance=1e-9,
        detail=tuple((setting, f"largest excess {value:.1e}") for setting, value in found.items()),
    )
