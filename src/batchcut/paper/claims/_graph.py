"""The lower bound that turns batches into a graph."""

import torch
from torch import Tensor

from batchcut.losses.paper import two_sided_loss

from ._adversary import into_box, largest
from ._bounds import jensen_bound
from ._check import Measured, claim, states, worst


@claim("subsec:spectral_clustering")
@states(
    "the sum of the weights within a batch, ÷ B(B-1), is at most its loss (largest excess)", "<=", 0.0, tolerance=1e-9
)
def jensen() -> Measured:
    """Ascent on the bound minus the loss, at several temperatures."""
    found = {}
    for size in (2, 3, 8, 16):
        for temperature in (1.0, 0.1):
            generator = torch.Generator().manual_seed(size)
            start = 2 * torch.rand(32, size, size, dtype=torch.float64, generator=generator) - 1

            def excess(x: Tensor, temperature: float = temperature) -> Tensor:
                return jensen_bound(x / temperature) - two_sided_loss(x / temperature)

            found[f"B={size} τ={temperature}"] = largest(excess, start, into_box)
    return worst(found.values()), ((setting, f"largest excess {value:.1e}") for setting, value in found.items())
