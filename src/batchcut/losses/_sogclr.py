"""SogCLR's loss: a moving average in place of a large batch."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from batchcut._conventions import DEFAULT_TEMPERATURE
from batchcut._errors import check_integer, check_positive, invalid, wrong_type

from ._similarity import similarities, unit_rows
from ._validate import check_pair


def sogclr_loss(
    u: Tensor, v: Tensor, log_average: Tensor, *, temperature: float, gamma: float
) -> tuple[Tensor, Tensor]:
    """SogCLR's estimator for two views u: (n, d), v: (n, d), given the averages so far; returns the new ones too.

    Rows are scaled to unit length, and the mean is over all views. With z the 2n views, g_i the mean of
    e^{z_i·z_j/τ} over the 2n - 2 views of other samples, and s_i the moving average of the sample
    that i shows,

        a_i = (1 − γ) s_i + γ g_i,
        L = 1/(2n) Σ_{i=1..2n} ( − z_i·z_p(i) + 1/(2n−2) Σ_j [e^{z_i·z_j/τ}] / [a_i] · z_i·z_j )

    where brackets stop the gradient, so that it is that of −z_i·z_p(i) + τ log g_i with the average
    in place of the batch's own g_i in the denominator (Yuan et al. 2022). So its gradient is about τ times that of
    `nt_xent`, SimCLR's, of a batch as large as the average reaches back. The two views of a sample share s, and each
    has its own a, as in the authors' code; the next s is the mean of the two. Averages are kept as logarithms, since
    e^(1/τ) leaves float32 below τ = 0.012.

    Args:
        u: one view of each sample.
        v: the other view.
        log_average: (n,) log s of each sample; NaN where the sample was never seen, for which a_i = g_i.
        temperature: a number above 0.
        gamma: the weight of the new value, above 0 and at most 1.

    Returns:
        The loss and the (n,) new log averages.
    """
    n = len(u)
    views = unit_rows(torch.cat([u, v]))
    cosines = similarities(views, views, 1.0)
    same_sample = torch.eye(n, dtype=torch.bool, device=u.device).repeat(2, 2)
    negatives = cosines.masked_fill(same_sample, -torch.inf) / temperature
    new = torch.logsumexp(negatives, dim=1).detach() - math.log(2 * n - 2)

    old = log_average.repeat(2).to(new)
    keep = math.log1p(-gamma) if gamma < 1 else -math.inf
    blended = torch.logaddexp(old + keep, new + math.log(gamma))
    average = torch.where(old.isnan(), new, blended)

    weights = (negatives.detach() - average[:, None]).exp() / (2 * n - 2)
    positive = cosines.diagonal(n).sum() * 2
    loss = ((weights * cosines).sum() - positive) / (2 * n)
    return loss, torch.logaddexp(average[:n], average[n:]) - math.log(2)


class SogCLR(nn.Module):
    """SogCLR's loss with one moving average for each of the samples of a data set (see `sogclr_loss`).

    The averages are a buffer: they move with `.to()`, and `state_dict` saves them. A sample's first visit sets its
    average, whatever the other samples of its batch have seen.

    Args:
        num_samples: size of the data set.
        temperature: a number above 0.
        gamma: weight of the new value in the average; 1 forgets the past, the paper uses 0.9.
    """

    log_average: Tensor

    def __init__(self, num_samples: int, *, temperature: float = DEFAULT_TEMPERATURE, gamma: float = 0.9) -> None:
        super().__init__()
        self.num_samples = check_integer("num_samples", num_samples, at_least=2)
        self.temperature = check_positive("temperature", temperature)
        self.gamma = check_positive("gamma", gamma, at_most=1)
        self.register_buffer("log_average", torch.full((self.num_samples,), torch.nan))

    def forward(self, index: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """The loss of u: (n, d) and v: (n, d), two views of the samples index: (n,); updates their averages.

        In evaluation mode the averages are used but stay as they are.
        """
        check_pair(u, v)
        index = self._check_index(index, len(u))
        loss, averages = sogclr_loss(u, v, self.log_average[index], temperature=self.temperature, gamma=self.gamma)
        if self.training:
            self.log_average[index] = averages.to(self.log_average)
        return loss

    def _check_index(self, index: Tensor, n: int) -> Tensor:
        if not isinstance(index, Tensor):
            raise wrong_type("index", "be a torch tensor", index)
        if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
            raise TypeError(f"index must hold integers; got {index.dtype}")
        if index.shape != (n,):
            raise invalid("index", f"have shape ({n},), one for each row of u", tuple(index.shape))
        if index.device.type == "cpu":
            low, high = int(index.min()), int(index.max())
            if low < 0 or high >= self.num_samples:
                raise invalid("index", f"lie in 0 to {self.num_samples - 1}", low if low < 0 else high)
            if len(index.unique()) < n:
                raise invalid("index", "name each sample once", "a sample twice")
        return index.to(self.log_average.device, torch.long)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        saved = state_dict.get(f"{prefix}log_average")
        if saved is not None and saved.shape != self.log_average.shape:
            raise invalid(
                "state_dict",
                f"hold averages of {self.num_samples} samples, as this module does",
                f"shape {tuple(saved.shape)}",
            )
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """The settings, for `print(module)`."""
        return f"{self.num_samples}, temperature={self.temperature}, gamma={self.gamma}"
