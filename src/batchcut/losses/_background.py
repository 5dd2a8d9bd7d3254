"""A background: old embeddings of other samples, without gradient, beside the negatives of the batch."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from batchcut._errors import check_positive, check_share, invalid, wrong_type

from ._similarity import without_autocast
from ._validate import check_form

_CLOSED = -1e30


@dataclass(frozen=True, kw_only=True, eq=False)
class Background:
    """Further candidates of every row of a batch: m old embeddings of samples that are not in it, without gradient.

    A planned batch holds samples that are alike, and nothing in it says how kinds differ from each other; random old
    embeddings do. A row i with logits s_ij in its batch and b_ik in the background gets the
    denominator

        Σ_j e^{s_ij} + w_i Σ_k e^{b_ik},
        w_i = min( ρ / (1 − ρ) · Σ_{j≠i} e^{s_ij} / Σ_k e^{b_ik}, w_max )

    where no gradient goes through w_i. So the background holds the share ρ of the negatives' mass of each row,
    or less where a candidate would stand for more than w_max samples.

    Attributes:
        u: (m, d) old embeddings of one side.
        v: (m, d) those of the other side, of the same samples.
        share: ρ, at least 0 and below 1; or a tensor that holds it, so that no step waits for the device.
        largest_weight: w_max, such as N / m.
        live: (m,) which samples count; None: all. Rows of others may be zero, but not NaN.
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
        if not isinstance(self.share, Tensor):
            check_share("background.share", self.share)
        elif self.share.numel() != 1 or not self.share.is_floating_point():
            got = f"{self.share.dtype} of shape {tuple(self.share.shape)}"
            raise invalid("background.share", "be a number or a floating tensor with one", got)
        check_positive("background.largest_weight", self.largest_weight)
        if self.live is None:
            return
        if not isinstance(self.live, Tensor):
            raise wrong_type("background.live", "be None or a torch tensor", self.live)
        if self.live.shape != (m,) or self.live.dtype != torch.bool:
            got = f"{self.live.dtype} of shape {tuple(self.live.shape)}"
            raise invalid("background.live", f"hold a truth value for each of the {m} samples", got)


def check_background(background: object, u: Tensor) -> None:
    """Raises unless it is None, or a `Background` as wide as u: (n, d)."""
    if background is None:
        return
    if not isinstance(background, Background):
        raise wrong_type("background", "be a Background, such as loader.background", background)
    if background.u.shape[1] != u.shape[1]:
        raise invalid("background", f"be as wide as u, {u.shape[1]}", background.u.shape[1])


def log_denominators(
    logits: Tensor,
    no_negatives: Tensor,
    anchors: Tensor,
    rows: Tensor,
    background: Background,
    temperature: float | Tensor,
) -> Tensor:
    """(k, n) the logarithm of each row's denominator, with a background (see `Background`), for k sides at once.

    A background may be on another device, as that of a bank in a file is, and of another precision.

    Args:
        logits: (k, n, c) those of the batch, the positive's among them.
        no_negatives: (n, c) where there is a positive, or nothing.
        anchors: (k, n, d) unit rows.
        rows: (k, m, d) those of the background that each side sees.
        background: how much they count, and which of them.
        temperature: τ.
    """
    with without_autocast(anchors):
        # Not `unit_rows`: its guard for rows whose squares leave float32 costs about as much as the product below.
        rows = F.normalize(rows.detach().to(anchors), dim=-1).mT
        scaled = anchors / temperature
        beside = torch.baddbmm(_closed(background.live, rows), scaled, rows)
    outside = torch.logsumexp(beside, dim=-1)
    with torch.no_grad():
        inside = torch.logsumexp(logits.masked_fill(no_negatives, -torch.inf), dim=-1)
        odds = _log_odds(background.share, logits.device)
        weight = (inside - outside + odds).clamp(max=math.log(background.largest_weight))
    return torch.logaddexp(torch.logsumexp(logits, dim=-1), outside + weight)


def _log_odds(share: float | Tensor, device: torch.device) -> float | Tensor:
    """Log ρ / (1 - ρ), which is -inf of 0."""
    if isinstance(share, Tensor):
        return torch.logit(share.to(device))
    return math.log(share / (1 - share)) if share else -math.inf


def _closed(live: Tensor | None, columns: Tensor) -> Tensor:
    """(1, 1, m) what is added to the logits of columns: (k, d, m), one or several for each sample, to close some.

    Not -inf, whose gradient is NaN where all of a row are closed.
    """
    if live is None:
        return columns.new_zeros(1, 1, 1)
    closed = columns.new_zeros(len(live)).masked_fill(~live.to(columns.device), _CLOSED)
    return closed.repeat(columns.shape[-1] // len(live))[None, None]
