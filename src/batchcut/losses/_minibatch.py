"""The loss over a set of mini-batches, in one vectorised call and bounded memory."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from batchcut._conventions import DEFAULT_TEMPERATURE
from batchcut._errors import check_integer, invalid

from ._combinations import combinations
from ._contrastive import two_sided_loss
from ._similarity import similarities, unit_rows
from ._validate import check_pair, check_temperature

CHUNK = 2**24
"""How many numbers a stretch of batches may hold at once. Blocks below 32 MiB would be no gain: glibc keeps them in its
heap, where the small results between them leave gaps that the next stretch does not fill."""

LARGEST_MATRIX = 2**24
"""Up to this size the matrix of all similarities is made, if the batches need as many."""

MOST_SIMILARITIES = 10**10
"""How many similarities `batches="all"` may need: some minutes of work on two cores."""

Batches = Tensor | Sequence[Sequence[int]] | Literal["all"] | Any


def minibatch_loss(
    u: Tensor,
    v: Tensor,
    batches: Batches,
    *,
    batch_size: int | None = None,
    temperature: float | Tensor = DEFAULT_TEMPERATURE,
    reduction: Literal["mean", "none"] = "mean",
) -> Tensor:
    """Mean of `contrastive_loss` (CLIP's) of u: (N, d) and v: (N, d) over a set S of batches, a partition or not.

    Rows are scaled to unit length, and the mean is over both directions. `losses.paper.minibatch_loss` is the paper's
    own definition, twice this one for unit rows.

    Args:
        u: embeddings of one side of the pairs.
        v: embeddings of the other side.
        batches: (K, B) indices, as a tensor, an array or nested lists; or "all" C(N, B) batches of `batch_size`.
        batch_size: B; needed for "all", otherwise taken from `batches`.
        temperature: τ, a number above 0, or a tensor that holds one.
        reduction: "mean", or "none" for the (K,) losses of the batches, in the order given ("all": lexicographic).

    Returns:
        A scalar, or (K,) losses. Memory stays bounded however many batches there are: they are worked through in
        stretches, which the backward pass computes anew.
    """
    check_pair(u, v)
    rows = unit_rows(u), unit_rows(v)
    return paper_minibatch_loss(*rows, batches, batch_size=batch_size, temperature=temperature, reduction=reduction) / 2


def paper_minibatch_loss(
    u: Tensor,
    v: Tensor,
    batches: Batches,
    *,
    batch_size: int | None = None,
    temperature: float | Tensor = 1.0,
    reduction: Literal["mean", "none"] = "mean",
) -> Tensor:
    """The paper's mean loss of u, v: (N, d) over a set S of batches; for unit rows twice `losses.minibatch_loss`.

        L_mini(U, V; S) = 1/|S| Σ_{b ∈ S} L(U_b, V_b)

    (`prob:mini-batch`), with L of `paper.contrastive_loss`. The arguments are those of `losses.minibatch_loss`.
    """
    check_pair(u, v)
    temperature = check_temperature(temperature)
    if reduction not in ("mean", "none"):
        raise invalid("reduction", "be 'mean' or 'none'", repr(reduction))
    if isinstance(batches, str):
        make, total, size = _all_batches(len(u), batches, batch_size)
    else:
        make, total, size = _given_batches(len(u), batches, batch_size, u.device)

    # Many batches share their similarities, few do not: compute the whole matrix once, or only what is used.
    if len(u) ** 2 <= min(total * size**2, LARGEST_MATRIX):
        losses_of = partial(_losses_from_matrix, similarities(u, v, temperature))
        held = size**2
    else:
        losses_of = partial(_losses_from_rows, u, v, temperature)
        held = size**2 + 2 * size * u.shape[1]
    step = max(1, CHUNK // held)
    if total > step:
        losses_of = partial(_forgetting, losses_of)
    stretches = (partial(make, start, min(start + step, total)) for start in range(0, total, step))

    if reduction == "none":
        return torch.cat([losses_of(stretch) for stretch in stretches])
    return torch.stack([losses_of(stretch).sum() for stretch in stretches]).sum() / total


Make = Callable[[int, int], Tensor]
"""Makes the batches of a range, (stop - start, B) indices."""

Stretch = Callable[[], Tensor]
"""Makes some of the batches, (k, B) indices; called anew in the backward pass, so that not even these are kept."""


def _losses_from_matrix(matrix: Tensor, stretch: Stretch) -> Tensor:
    batches = stretch().to(matrix.device)
    return two_sided_loss(matrix[batches[:, :, None], batches[:, None, :]])


def _losses_from_rows(u: Tensor, v: Tensor, temperature: float | Tensor, stretch: Stretch) -> Tensor:
    batches = stretch().to(u.device)
    return two_sided_loss(similarities(u[batches], v[batches], temperature))


def _forgetting(compute: Callable[[Stretch], Tensor], stretch: Stretch) -> Tensor:
    """Computes, and once more in the backward pass instead of keeping the similarities."""
    if not torch.is_grad_enabled():
        return compute(stretch)
    result: Tensor = checkpoint(compute, stretch, use_reentrant=False, preserve_rng_state=False)
    return result


def _all_batches(n: int, name: str, batch_size: int | None) -> tuple[Make, int, int]:
    if name != "all":
        raise invalid("batches", "be 'all' or (K, B) indices", repr(name))
    if batch_size is None:
        raise invalid("batch_size", "be given with batches='all'", None)
    size = check_integer("batch_size", batch_size, at_least=2, at_most=n)
    total = math.comb(n, size)
    if total * size**2 > MOST_SIMILARITIES:
        raise invalid(
            "batches",
            f"name at most {MOST_SIMILARITIES // size**2:,} batches of size {size}",
            f"'all', which is C({n}, {size}) = {readable(total)} batches",
        )
    return partial(combinations, n, size), total, size


def readable(count: int) -> str:
    """A count for a message; Python itself refuses to print integers of more than 4300 digits."""
    if count < 10**15:
        return f"{count:,}"
    fraction, exponent = math.modf(math.log10(count))
    return f"about {10**fraction:.1f}e{exponent:.0f}"


def _given_batches(n: int, batches: Batches, batch_size: int | None, device: torch.device) -> tuple[Make, int, int]:
    indices = check_batches(n, batches)
    total, size = indices.shape
    if batch_size is not None and batch_size != size:
        raise invalid("batch_size", f"equal the width of batches, {size}, or be left out", batch_size)
    indices = indices.to(device)
    return lambda start, stop: indices[start:stop], total, size


def check_batches(n: int, batches: Batches) -> Tensor:
    """Returns `batches` as a (K, B) int64 tensor, if each row names B different samples out of n."""
    try:
        indices = batches if isinstance(batches, Tensor) else torch.tensor(_nested(batches))
    except (TypeError, ValueError, RuntimeError) as error:
        raise invalid("batches", "be 'all' or (K, B) indices, all batches of one size", error) from None
    if indices.ndim != 2 or indices.numel() == 0:
        raise invalid("batches", "have shape (K, B) with at least one batch", tuple(indices.shape))
    if indices.dtype == torch.bool or indices.is_floating_point() or indices.is_complex():
        raise TypeError(f"batches must hold integers; got {indices.dtype}")
    check_integer("batch size (the width of batches)", indices.shape[1], at_least=2, at_most=n)
    indices = indices.long()
    if indices.device.type == "cpu":
        _check_members(n, indices)
    return indices


def _nested(batches: Any) -> Any:
    """Arrays and lists of them as nested lists: torch stumbles over read-only, reversed and foreign-endian arrays."""
    if hasattr(batches, "tolist"):
        return batches.tolist()
    return [_nested(row) if hasattr(row, "tolist") else row for row in batches]


def _check_members(n: int, indices: Tensor) -> None:
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= n:
        raise invalid("batches", f"hold indices from 0 to {n - 1}", low if low < 0 else high)
    ordered = indices.sort(dim=1).values
    twice = ordered[:, 1:] == ordered[:, :-1]
    if bool(twice.any()):
        row, column = (int(x) for x in twice.nonzero()[0])
        raise invalid(
            "batches",
            "name a sample at most once in a batch",
            f"{int(ordered[row, column])} twice in batch {row}",
        )
