"""One convention for all losses: unit rows, the mean over all anchors, one default temperature; and the paper's own."""

import inspect
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tests.losses._reference import pairs
from torch import Tensor

from batchcut import losses
from batchcut.losses import paper

Loss = Callable[..., Tensor]

BATCHES = [[0, 3, 1], [2, 5, 4]]
NAMES: dict[str, dict[str, object]] = {
    "contrastive_loss": {},
    "full_batch_loss": {},
    "minibatch_loss": {"batches": BATCHES},
}


@pytest.mark.parametrize("name", NAMES)
@given(n=st.integers(6, 9), d=st.integers(2, 6), seed=st.integers(0, 99), temperature=st.sampled_from([0.05, 0.3, 2.0]))
def test_the_papers_definition_is_twice_as_large_for_unit_rows(
    name: str, n: int, d: int, seed: int, temperature: float
) -> None:
    u, v = pairs(n, d, seed=seed)
    ours, theirs = (getattr(where, name)(u, v, temperature=temperature, **NAMES[name]) for where in (losses, paper))
    assert (2 * ours).item() == pytest.approx(theirs.item(), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_scaled_to_unit_length(name: str) -> None:
    loss: Loss = getattr(losses, name)
    u, v = pairs(6, 4, unit=False)
    lengths = torch.tensor([[1e-3], [1.0], [7.0], [1e6], [2.0], [3.0]], dtype=torch.float64)
    expected = loss(F.normalize(u, dim=1), F.normalize(v, dim=1), **NAMES[name])
    assert loss(lengths * u, v / lengths, **NAMES[name]).item() == pytest.approx(expected.item(), rel=1e-12)
    theirs: Loss = getattr(paper, name)
    assert theirs(2 * u, v, **NAMES[name]).item() != pytest.approx(theirs(u, v, **NAMES[name]).item(), rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_gradient(name: str) -> None:
    loss: Loss = getattr(losses, name)
    torch.autograd.gradcheck(lambda u, v: loss(u, v, temperature=0.3, **NAMES[name]), pairs(6, 3, unit=False))


@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_contrastive_loss_is_clips(temperature: float) -> None:
    u, v = pairs(6, 4, unit=False)
    logits, labels = F.normalize(u, dim=1) @ F.normalize(v, dim=1).T / temperature, torch.arange(6)
    clip = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    for loss in (losses.contrastive_loss, losses.full_batch_loss, losses.gathered_contrastive_loss):
        assert loss(u, v, temperature=temperature).item() == pytest.approx(clip.item(), rel=1e-12)


def test_one_default_temperature_everywhere_and_one_in_the_paper() -> None:
    def default(function: Callable[..., object]) -> object:
        return inspect.signature(function).parameters["temperature"].default

    ours = [getattr(losses, name) for name in (*NAMES, "nt_xent", "SogCLR", "gathered_contrastive_loss")]
    assert {default(loss) for loss in ours} == {0.1}
    assert {default(getattr(paper, name)) for name in NAMES} == {1.0}


def test_minibatch_losses_one_by_one() -> None:
    u, v = pairs(6, 4, unit=False)
    each = losses.minibatch_loss(u, v, BATCHES, reduction="none")
    for batch, loss in zip(BATCHES, each, strict=True):
        assert loss.item() == pytest.approx(losses.contrastive_loss(u[batch], v[batch]).item(), rel=1e-12)
