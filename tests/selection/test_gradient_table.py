from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

import batchcut as bc
from batchcut.selection import effective_batch_size, gradient_table

MakePairs = Callable[..., tuple[Any, Any]]
Roles = Literal["anchor", "both"]
TAU = 0.2
BATCHES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, -1]])


def layer_gradient(u: Any, v: Any, batches: Any, roles: Roles) -> torch.Tensor:
    """By autograd: the gradient of an affine layer on each side of the summed losses."""
    fixed = [torch.tensor(side, dtype=torch.float64) for side in (u, v)]
    layers = [
        (torch.eye(u.shape[1]).double().requires_grad_(), torch.zeros(u.shape[1]).double().requires_grad_())
        for _ in range(2)
    ]
    moved = [normalize(side @ weight.T + bias, dim=1) for side, (weight, bias) in zip(fixed, layers, strict=True)]
    total = torch.zeros(())
    for row in batches:
        batch = torch.tensor(row[row >= 0])
        for k in range(2):
            others = moved[1 - k] if roles == "both" else fixed[1 - k]
            scores = moved[k][batch] @ others[batch].T / TAU
            total = total + (scores.logsumexp(dim=1) - scores.diagonal()).sum()
    parts = torch.autograd.grad(total, [part for layer in layers for part in layer])
    return torch.cat([part.flatten() for part in parts])


@pytest.mark.parametrize("roles", ["anchor", "both"])
def test_what_is_kept_is_that_of_autograd(make_pairs: MakePairs, roles: Roles) -> None:
    u, v = make_pairs(8, 4)
    whole = layer_gradient(u, v, np.arange(8)[None], roles)
    expected = float(layer_gradient(u, v, BATCHES, roles) @ whole / whole.square().sum())
    table = gradient_table(u, v, temperature=TAU, roles=roles)
    assert table.kept(BATCHES) == pytest.approx(expected, rel=1e-5)
    assert table.kept(np.arange(8)[None]) == pytest.approx(1)


def test_many_batches_go_in_parts(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = make_pairs(8, 4)
    table = gradient_table(u, v, temperature=TAU)
    at_once = table.kept_by_member(BATCHES)
    monkeypatch.setattr("batchcut.selection._gradient_table._CELLS", 10)
    np.testing.assert_array_equal(table.kept_by_member(BATCHES), at_once)
    assert at_once[2, 2] == 0


def test_the_size_is_near_the_estimate(make_pairs: MakePairs) -> None:
    u, v = make_pairs(600, 6, clusters=12)
    plan = bc.Cut(temperature=0.1)(u, v, batch_size=10)
    table = gradient_table(u, v, temperature=0.1)
    found = effective_batch_size(u, v, plan, temperature=0.1, anchors=600)
    assert found.kept == pytest.approx(table.kept(plan.batches), rel=1e-4)
    assert found.size == pytest.approx(table.size(table.kept(plan.batches)), rel=0.1)
    assert table.size(1.0) == 600
    assert table.size(0.0) == 1


def test_roles_are_two(make_pairs: MakePairs) -> None:
    wrong: Any = "all"
    with pytest.raises(ValueError, match="roles must be one of 'anchor', 'both'; got 'all'"):
        gradient_table(*make_pairs(8, 4), temperature=TAU, roles=wrong)
