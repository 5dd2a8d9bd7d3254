"""A background: against a slow loop over rows, at its limits, and without gradient where there must be none."""

import math
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tests.losses._reference import pairs
from torch import Tensor

from batchcut.losses import Background, contrastive_loss, gathered_contrastive_loss, nt_xent

LOSSES = [contrastive_loss, nt_xent, gathered_contrastive_loss]
TAU = 0.3


def drawn(m: int, d: int, seed: int = 7, **changes: Any) -> Background:
    u, v = (x.detach() for x in pairs(m, d, seed=seed, unit=False))
    return replace(Background(u=u, v=v, share=0.2, largest_weight=1e9), **changes)


def slow_loss(anchors: Tensor, candidates: Tensor, old: Tensor, background: Background, *, view: bool) -> Tensor:
    """The mean over rows of anchors: (n, d); row i of candidates is the positive; weights are plain numbers."""
    anchors, candidates, old = (F.normalize(x, dim=1) for x in (anchors, candidates, old))
    n = len(anchors)
    losses = []
    for i in range(n):
        positive = anchors[i] @ candidates[i] / TAU
        negatives = [anchors[i] @ candidates[j] / TAU for j in range(n) if j != i]
        if view:
            negatives += [anchors[i] @ anchors[j] / TAU for j in range(n) if j != i]
        inside = torch.stack(negatives).exp().sum()
        live = [True] * len(old) if background.live is None else (background.live.tolist() * 2)[: len(old)]
        beside = [anchors[i] @ row / TAU for row, counts in zip(old, live, strict=True) if counts]
        outside = torch.stack(beside).exp().sum()
        share = float(background.share)
        weight = min(share / (1 - share) * (inside / outside).item(), background.largest_weight)
        losses.append(torch.log(positive.exp() + inside + weight * outside) - positive)
    return torch.stack(losses).mean()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_background_in_half_precision_under_autocast(loss: Any) -> None:
    u, v = pairs(4, 8, dtype=torch.bfloat16)
    old = drawn(5, 8)
    half = replace(old, u=old.u.half(), v=old.v.half())
    wide = replace(old, u=half.u.float(), v=half.v.float())
    expected = loss(u, v, temperature=TAU, background=wide)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loss(u, v, temperature=TAU, background=half), expected)


@pytest.mark.parametrize("weight", [1e9, 0.01], ids=["by share", "by weight"])
@given(n=st.integers(2, 5), m=st.integers(1, 6), seed=st.integers(0, 99), share=st.sampled_from([0.05, 0.3, 0.9]))
def test_against_a_slow_loop(weight: float, n: int, m: int, seed: int, share: float) -> None:
    u, v = pairs(n, 4, seed=seed, unit=False)
    background = drawn(m, 4, seed + 1, share=share, largest_weight=weight, live=torch.arange(m) != 1)
    both = torch.cat([background.u, background.v])
    slow = {
        contrastive_loss: [(u, v, background.v, background), (v, u, background.u, background)],
        nt_xent: [(u, v, both, background), (v, u, both, background)],
    }
    for loss, sides in slow.items():
        expected = torch.stack([slow_loss(*side, view=loss is nt_xent) for side in sides]).mean()
        ours = loss(u, v, temperature=TAU, background=background)
        assert ours.item() == pytest.approx(expected.item(), rel=1e-12)
        torch.testing.assert_close(torch.autograd.grad(ours, (u, v)), torch.autograd.grad(expected, (u, v)))


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_where_the_weight_is_a_number(loss: Any) -> None:
    background = drawn(5, 3, largest_weight=1e-2)  # less than any row's share asks for
    torch.autograd.gradcheck(lambda u, v: loss(u, v, temperature=TAU, background=background), pairs(4, 3, unit=False))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "nothing",
    [{"share": 0.0}, {"share": torch.tensor(0.0)}, {"live": torch.zeros(5, dtype=torch.bool)}],
    ids=["no share", "none on the device", "none live"],
)
def test_a_background_of_nothing_changes_nothing(loss: Any, nothing: dict[str, Any]) -> None:
    gradients = []
    for background in (None, drawn(5, 3, **nothing)):
        u, v = pairs(4, 3)
        value = loss(u, v, temperature=TAU, background=background)
        value.backward()
        gradients.append([value.detach(), u.grad, v.grad])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("value", [0.0, 1e4])
def test_rows_that_do_not_count_may_hold_anything(loss: Any, value: float) -> None:
    gradients = []
    for other in (1.0, value):
        u, v = pairs(4, 3)
        background = drawn(5, 3, live=torch.arange(5) != 2)
        background.u[2] = background.v[2] = other
        gradients.append(torch.autograd.grad(loss(u, v, temperature=TAU, background=background), (u, v)))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)


def test_none_live_and_no_share_at_once() -> None:
    u, v = pairs(4, 3)
    nothing = drawn(5, 3, share=0.0, live=torch.zeros(5, dtype=torch.bool))
    assert contrastive_loss(u, v, background=nothing).item() == pytest.approx(contrastive_loss(u, v).item(), rel=1e-12)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_holds_its_share_of_the_negatives(share: float) -> None:
    u, v = pairs(6, 4)
    loss = contrastive_loss(u, v, temperature=TAU, background=drawn(9, 4, share=share))
    logits = u @ v.T / TAU
    negatives = logits.masked_fill(torch.eye(6, dtype=torch.bool), -math.inf)
    heavier = [
        torch.logaddexp(x.logsumexp(dim) - math.log(1 - share), logits.diagonal())
        for x in (negatives,)
        for dim in (0, 1)
    ]
    expected = (torch.stack(heavier).mean(dim=0) - logits.diagonal()).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)


def test_old_rows_get_no_gradient_and_may_be_in_half_precision() -> None:
    u, v = pairs(4, 3, dtype=torch.float32)
    old = [x.detach().half().requires_grad_() for x in pairs(5, 3, seed=3)]
    background = Background(u=old[0], v=old[1], share=0.2, largest_weight=10.0)
    loss = contrastive_loss(u, v, background=background)
    assert loss.dtype == torch.float32
    loss.backward()
    assert u.grad is not None
    assert [row.grad for row in old] == [None, None]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ours", [torch.float32, torch.float64])
@pytest.mark.parametrize("theirs", [torch.float16, torch.float32, torch.float64])
def test_precision_is_that_of_the_embeddings(loss: Any, ours: torch.dtype, theirs: torch.dtype) -> None:
    u, v = pairs(4, 3, dtype=ours)
    background = drawn(5, 3)
    found = loss(u, v, background=replace(background, u=background.u.to(theirs), v=background.v.to(theirs)))
    assert found.dtype == ours
    assert found.item() == pytest.approx(loss(u, v, background=background).item(), rel=1e-2)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_background_may_be_on_another_device(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a bank in a file is, where an accelerator trains."""
    for module in ("_background", "_similarity"):  # "meta" stands for the accelerator, and has no autocast
        monkeypatch.setattr(f"batchcut.losses.{module}.without_autocast", lambda x: nullcontext())
    u, v = (side.detach().to("meta").requires_grad_() for side in pairs(4, 3))
    found = loss(u, v, background=drawn(5, 3, live=torch.arange(5) != 2, share=torch.tensor(0.2)))
    found.backward()
    assert found.device == u.device


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": 1.0}, r"^background\.share must be at least 0 and below 1; got 1\.0$"),
        ({"share": -0.1}, r"^background\.share must be at least 0 and below 1; got -0\.1$"),
        ({"share": "0.1"}, r"^background\.share must be a number; got str$"),
        (
            {"share": torch.ones(2)},
            r"^background\.share must be a number or a floating tensor with one; got torch\.float3",
        ),
        (
            {"share": torch.tensor(1)},
            r"^background\.share must be a number or a floating tensor with one; got torch\.int",
        ),
        ({"live": [True] * 5}, r"^background\.live must be None or a torch tensor; got list$"),
        ({"largest_weight": 0.0}, r"^background\.largest_weight must be "),
        ({"v": torch.ones(4, 3)}, r"^background\.v must have the shape of background\.u, \(5, 3\); got \(4, 3\)$"),
        (
            {"live": torch.ones(4, dtype=torch.bool)},
            r"^background\.live must hold a truth value for each of the 5 ",
        ),
        ({"live": torch.ones(5)}, r"^background\.live must hold a truth value .*; got torch\.float32 of shape \(5,\)$"),
    ],
)
def test_wrong_backgrounds(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        drawn(5, 3, **changes)


@pytest.mark.parametrize("loss", LOSSES)
def test_wrong_arguments(loss: Any) -> None:
    u, v = pairs(4, 3)
    with pytest.raises(ValueError, match=r"^background must be as wide as u, 3; got 2$"):
        loss(u, v, background=drawn(5, 2))
    with pytest.raises(TypeError, match=r"^background must be a Background, such as loader\.background; got "):
        loss(u, v, background=True)
