"""Every loss of pairs refuses the same bad input in the same words."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from batchcut.losses import (
    SogCLR,
    contrastive_loss,
    full_batch_loss,
    gather,
    gathered_contrastive_loss,
    minibatch_loss,
    nt_xent,
)
from batchcut.losses.paper import ordered_loss

Loss = Callable[..., Tensor]


def _minibatch(u: Tensor, v: Tensor, **settings: Any) -> Tensor:
    return minibatch_loss(u, v, [[0, 1]], **settings)


def _ordered(u: Tensor, v: Tensor, **settings: Any) -> Tensor:
    return ordered_loss(u, v, batch_size=2, k=1, q=1, **settings)


def _sogclr(u: Tensor, v: Tensor, **settings: Any) -> Tensor:
    return SogCLR(10, **settings)(torch.arange(4), u, v)  # type: ignore[no-any-return]


LOSSES: list[Loss] = [
    contrastive_loss,
    full_batch_loss,
    nt_xent,
    gathered_contrastive_loss,
    _minibatch,
    _ordered,
    _sogclr,
]
GOOD = torch.eye(4)


def _with(row: int, column: int, value: float) -> Tensor:
    x = GOOD.clone()
    x[row, column] = value
    return x


BAD_PAIRS: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "u no tensor": ([[1.0]], GOOD, TypeError, "u must be a torch tensor; got list"),
    "v no tensor": (GOOD, None, TypeError, "v must be a torch tensor; got NoneType"),
    "integers": (GOOD.int(), GOOD, TypeError, "u must have a floating dtype; got torch.int32"),
    "booleans": (GOOD, GOOD.bool(), TypeError, "v must have a floating dtype; got torch.bool"),
    "complex": (GOOD.to(torch.complex64), GOOD, TypeError, "u must have a floating dtype; got torch.complex64"),
    "a vector": (torch.ones(4), torch.ones(4), ValueError, r"u must have shape \(n, d\); got \(4,\)"),
    "three axes": (GOOD, GOOD[None], ValueError, r"v must have shape \(n, d\); got \(1, 4, 4\)"),
    "lengths differ": (GOOD, GOOD[:3], ValueError, r"v must have the shape of u, \(4, 4\); got \(3, 4\)"),
    "widths differ": (GOOD, GOOD[:, :3], ValueError, r"v must have the shape of u, \(4, 4\); got \(4, 3\)"),
    "dtypes differ": (GOOD, GOOD.double(), ValueError, "v must have the dtype of u, torch.float32; got torch.float64"),
    "devices differ": (GOOD, GOOD.to("meta"), ValueError, "v must be on the device of u, cpu; got meta"),
    "one sample": (
        GOOD[:1],
        GOOD[:1],
        ValueError,
        r"u must hold at least 2 embeddings of at least 1 dimension; got shape \(1, 4\)",
    ),
    "no dimension": (
        GOOD[:, :0],
        GOOD[:, :0],
        ValueError,
        r"u must hold at least \d embeddings of at least 1 dimension; got shape \(4, 0\)",
    ),
    "zero vector in u": (_with(2, 2, 0.0), GOOD, ValueError, "[ux] must hold no zero vector; got one in row 2"),
    "zero vector in v": (GOOD, _with(3, 3, 0.0), ValueError, "[vx] must hold no zero vector; got one in row 3"),
    "NaN": (_with(1, 3, torch.nan), GOOD, ValueError, "[ux] must be finite; got nan in row 1"),
    "infinity": (GOOD, _with(0, 2, -torch.inf), ValueError, "[vx] must be finite; got -inf in row 0"),
}


@pytest.mark.parametrize("case", BAD_PAIRS)
@pytest.mark.parametrize("loss", LOSSES)
def test_bad_pairs(loss: Loss, case: str) -> None:
    u, v, kind, text = BAD_PAIRS[case]
    with pytest.raises(kind, match=f"^{text}$"):
        loss(u, v)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("value", [0, 0.0, -0.1, float("nan"), float("inf")])
def test_bad_temperatures(loss: Loss, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^temperature must be finite and above 0; got {value}$"):
        loss(GOOD, GOOD, temperature=value)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("value", ["1", None, True])
def test_temperatures_of_a_wrong_type(loss: Loss, value: object) -> None:
    with pytest.raises(TypeError, match=rf"^temperature must be a number; got {type(value).__name__}$"):
        loss(GOOD, GOOD, temperature=value)


@pytest.mark.parametrize("loss", LOSSES[:-1])
def test_bad_temperature_tensors(loss: Loss) -> None:
    with pytest.raises(ValueError, match=r"^temperature must be finite and above 0; got -0\.5$"):
        loss(GOOD, GOOD, temperature=torch.tensor(-0.5))
    with pytest.raises(
        ValueError, match=r"^temperature must be a number or a floating tensor with one; got torch.float32 \(2,\)$"
    ):
        loss(GOOD, GOOD, temperature=torch.ones(2))
    with pytest.raises(
        ValueError, match=r"^temperature must be a number or a floating tensor with one; got torch.int64 \(\)$"
    ):
        loss(GOOD, GOOD, temperature=torch.tensor(1))


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_lengths_that_leave_float32_are_no_error(size: float) -> None:
    """The square of 1e-30 is 0 in float32, that of 1e30 infinite; the rows are neither."""
    loss = contrastive_loss(torch.full((2000, 2), size), torch.ones(2000, 2) / size)
    assert loss.item() == pytest.approx(math.log(2000))


def test_the_named_row_is_the_first_bad_one() -> None:
    x = torch.full((5, 4), 1e-30)
    x[3] = 0
    x[4] = torch.nan
    with pytest.raises(ValueError, match=r"got one in row 3$"):
        contrastive_loss(x, x)


def test_gather_names_its_argument() -> None:
    with pytest.raises(TypeError, match=r"^x must have a floating dtype; got torch.int64$"):
        gather(torch.ones(2, 2, dtype=torch.long))


def test_under_the_compiler_values_are_not_read() -> None:
    """Reading a value would break the graph; `fullgraph` makes that an error."""
    compiled = torch.compile(contrastive_loss, backend="eager", fullgraph=True)
    u = torch.nn.functional.normalize(torch.arange(12.0).reshape(4, 3) + 1, dim=1)
    torch.testing.assert_close(compiled(u, u), contrastive_loss(u, u))
