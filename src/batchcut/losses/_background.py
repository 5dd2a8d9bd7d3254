"""A background: old embeddings of other samples, without gradient, beside the negatives of the batch."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from batchcut._errors import check_positive, invalid, wrong_type

from ._similarity import similarities, unit_rows
from ._validate import check_form


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """One side of a background: rows: (m, d), which of them count, and how much they may (see `Background`)."""

    rows: Tensor
    live: Tensor | None
    share: float | Tensor
    largest_weight: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Background:
    r"""Further candidates of every row of a batch: m old embeddings of samples that are not in it, without gradient.

    A planned batch holds samples that are alike, and nothing in it says how kinds differ from each other; random old
    embeddings do. A row i with logits :math:`s_{ij}` in its batch and :math:`b_{ik}` in the background gets the
    denominator

    .. math::
        \sum_j e^{s_{ij}} + w_i \sum_k e^{b_{ik}}, \qquad
        w_i = \min\Big( \frac{\rho}{1 - \rho} \frac{\sum_{j \ne i} e^{s_{ij}}}{\sum_k e^{b_{ik}}}, w_{\max} \Big)

    where no gradient goes through :math:`w_i`. So the background holds the share ρ of the negatives' mass of each row,
    or less where a candidate would stand for more than :math:`w_{\max}` samples.

    Attributes:
        u: (m, d) old embeddings of one side.
        v: (m, d) those of the other side, of the same samples.
        share: ρ, at least 0 and below 1; or a tensor that holds it, so that no step waits for the device.
        largest_weight: w_max, such as N / m.
        live: (m,) which samples count; None: all.
    """

    u: Tensor
    v: Tensor
    share: float | Tensor
    largest_weight: float
    live: Tensor | None = None

    def __post_init__(self) -> None:
        check_form("background.u", self.u, at_least=1)
        check_form("background.v", self.v, at_least=1)
        m = len(self.u)
        if self.v.shape != self.u.shape:
            raise invalid("background.v", f"have the shape of background.u, {tuple(self.u.shape)}", tuple(self.v.shape))
        if not isinstance(self.share, Tensor) and not 0 <= self.share < 1:
            raise invalid("background.share", "be at least 0 and below 1", self.share)
        check_positive("background.largest_weight", self.largest_weight)
        if self.live is not None and (self.live.shape != (m,) or self.live.dtype != torch.bool):
            got = f"{self.live.dtype} of shape {tuple(self.live.shape)}"
            raise invalid("background.live", f"hold a truth value for each of the {m} samples", got)

    @property
    def of_u(self) -> Candidates:
        """The candidates of rows of v."""
        return self._candidates(self.u, self.live)

    @property
    def of_v(self) -> Candidates:
        """The candidates of rows of u."""
        return self._candidates(self.v, self.live)

    @property
    def of_both(self) -> Candidates:
        """The candidates of views, whichever side they are of."""
        live = None if self.live is None else self.live.repeat(2)
        return self._candidates(torch.cat([self.u, self.v]), live)

    def _candidates(self, rows: Tensor, live: Tensor | None) -> Candidates:
        return Candidates(rows=rows.detach(), live=live, share=self.share, largest_weight=self.largest_weight)


def check_background(background: object, u: Tensor) -> None:
    """Raises unless it is None, or a `Background` as wide as u: (n, d)."""
    if background is None:
        return
    if not isinstance(background, Background):
        raise wrong_type("background", "be a Background, such as loader.background", background)
    if background.u.shape[1] != u.shape[1]:
        raise invalid("background", f"be as wide as u, {u.shape[1]}", background.u.shape[1])


def log_denominators(
    logits: Tensor, no_negatives: Tensor, anchors: Tensor, candidates: Candidates, temperature: float | Tensor
) -> Tensor:
    """(n,) the logarithm of each row's denominator, with a background (see `Background`).

    Args:
        logits: (n, k) those of the batch, the positive's among them.
        no_negatives: (n, k) where there is a positive, or nothing.
        anchors: (n, d) unit rows.
        candidates: of the background.
        temperature: τ.
    """
    rows, live = candidates.rows, candidates.live
    if live is not None:
        rows = rows.masked_fill(~live[:, None], 1.0)  # of which none may be NaN: zero times NaN is a gradient, too
    beside = similarities(anchors, unit_rows(rows), temperature)
    if live is not None:
        beside = beside.masked_fill(~live, -torch.inf)
    outside = torch.logsumexp(beside, dim=1)
    with torch.no_grad():
        inside = torch.logsumexp(logits.masked_fill(no_negatives, -torch.inf), dim=1)
        share = torch.as_tensor(candidates.share, dtype=logits.dtype, device=logits.device)
        weight = torch.logit(share) + inside - outside
        weight = weight.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        weight = weight.clamp(max=math.log(candidates.largest_weight))
    return torch.logaddexp(torch.logsumexp(logits, dim=1), outside + weight)
