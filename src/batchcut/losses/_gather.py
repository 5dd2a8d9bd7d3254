"""Negatives from all processes."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from batchcut._conventions import DEFAULT_TEMPERATURE
from batchcut._errors import invalid

from ._background import Background
from ._contrastive import contrastive_loss
from ._validate import check_form, check_forms, check_values


def gather(x: Tensor, *, group: dist.ProcessGroup | None = None) -> Tensor:
    """Joins the rows x: (n, d) of all processes, in the order of their ranks, with gradient; (sum of n, d).

    The processes may bring different numbers of rows. The backward pass is the adjoint of the forward pass: a row's
    gradient is the sum of what all processes send back. So where each process computes the same loss from the joined
    rows, and DistributedDataParallel averages the gradients of the parameters as it does, they come out as they would
    from one process on the joined batch.

    Without a process group the rows come back as they are.
    """
    return _joined("x", x, group)


def _joined(argument: str, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    check_form(argument, x, at_least=0)
    joined = x
    if dist.is_available() and dist.is_initialized():
        joined = _Gather.apply(x, _sizes(argument, x, group), group)  # type: ignore[no-untyped-call]
    # Not before: a process that fails alone leaves the others waiting for it.
    check_values(argument, joined)
    return joined


def gathered_contrastive_loss(
    u: Tensor,
    v: Tensor,
    *,
    temperature: float | Tensor = DEFAULT_TEMPERATURE,
    background: Background | None = None,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """`contrastive_loss` (CLIP's) of the batch that all processes hold together; u, v: (n, d) are the rows of this one.

    Rows are scaled to unit length, and the mean is over both directions. Every process gets the same value, if
    the background is the same on all, as that of a loader that splits batches is. See `gather` for the gradient.
    """
    check_forms(u, v, at_least=0)
    u, v = _joined("u", u, group), _joined("v", v, group)
    return contrastive_loss(u, v, temperature=temperature, background=background)


def _sizes(argument: str, x: Tensor, group: dist.ProcessGroup | None) -> list[int]:
    """The number of rows of each process; raises on all of them if their widths or dtypes differ."""
    kinds = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
    mine = torch.tensor([*x.shape, kinds.index(x.dtype)], device=x.device)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyone, mine, group=group)
    shapes = [tuple(theirs.tolist()) for theirs in everyone]
    if len({(width, kind) for _, width, kind in shapes}) > 1:
        seen = ", ".join(f"{kinds[kind]} of width {width}" for _, width, kind in shapes)
        raise invalid(argument, "have the same width and dtype on every process", seen)
    return [rows for rows, _, _ in shapes]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, sizes: list[int], group: dist.ProcessGroup | None) -> Tensor:
        ctx.sizes, ctx.group = sizes, group
        padded = x.new_zeros(max(sizes), x.shape[1])
        padded[: len(x)] = x
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded, group=group)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        total = grad.contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total.split(ctx.sizes)[dist.get_rank(ctx.group)], None, None
