"""Negatives from all processes, in two real ones."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests._processes import found_by
from tests.losses._reference import pairs
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from batchcut.losses import contrastive_loss, gather, gathered_contrastive_loss

WORLD = 2
SIZES = {"even": (3, 3), "uneven": (2, 5), "one row": (1, 4), "no row": (5, 0)}


def _encoder() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def _rows(sizes: tuple[int, int], rank: int) -> slice:
    return slice(0, sizes[0]) if rank == 0 else slice(sizes[0], sum(sizes))


# What each process does; the result is saved and compared in the test.


def _all_jobs(rank: int, world: int, folder: str) -> dict[str, Any]:
    jobs: dict[str, Callable[[int], Any]] = {
        **{name: partial(_loss_and_gradients, sizes) for name, sizes in SIZES.items()},
        "ddp": _through_ddp,
        "joined": lambda rank: gather(torch.full((rank + 1, 2), rank + 1.0)),
        "subgroup": _in_a_group_of_one,
        "width": lambda rank: gather(torch.ones(2, 3 + rank)),
        "dtype": lambda rank: gather(torch.ones(2, 3, dtype=torch.float64 if rank else torch.float32)),
        "nan": lambda rank: gathered_contrastive_loss(torch.full((2, 2), torch.nan if rank else 1.0), torch.ones(2, 2)),
        "swapped": lambda rank: gathered_contrastive_loss(torch.ones(2 + rank, 2), torch.ones(3 - rank, 2)),
        "too few": lambda rank: gathered_contrastive_loss(torch.ones(rank, 2), torch.ones(rank, 2)),
        "after": lambda rank: gather(torch.full((1, 1), rank + 1.0)),
    }
    return {name: _outcome(job, rank) for name, job in jobs.items()}


def _outcome(job: Callable[[int], Any], rank: int) -> Any:
    try:
        return job(rank)
    except ValueError as error:
        return str(error)


def _loss_and_gradients(sizes: tuple[int, int], rank: int) -> list[Tensor]:
    u, v = (x.detach()[_rows(sizes, rank)].requires_grad_() for x in pairs(sum(sizes), 3))
    temperature = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    loss = gathered_contrastive_loss(u, v, temperature=temperature)
    return [loss.detach(), *torch.autograd.grad(loss, (u, v, temperature))]


def _through_ddp(rank: int) -> list[Tensor]:
    x, y = (z.detach()[_rows((2, 5), rank)] for z in pairs(7, 4))
    model = DistributedDataParallel(_encoder())
    u, v = model(torch.cat([x, y])).chunk(2)
    gathered_contrastive_loss(u, v, temperature=0.2).backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def _in_a_group_of_one(rank: int) -> Tensor:
    groups = [dist.new_group([r]) for r in range(WORLD)]
    return gather(torch.full((2, 1), rank + 1.0), group=groups[rank])


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the two processes found; they are started once for all tests."""
    return found_by(WORLD, tmp_path_factory.mktemp("gather"), _all_jobs)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_equals_one_process_on_the_joined_batch(outcomes: list[dict[str, Any]], name: str) -> None:
    u, v = pairs(sum(SIZES[name]), 3)
    temperature = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    loss = contrastive_loss(u, v, temperature=temperature)
    grad_u, grad_v, grad_temperature = torch.autograd.grad(loss, (u, v, temperature))
    for rank in range(WORLD):
        rows = _rows(SIZES[name], rank)
        # Each process brings the whole loss, so a row gets its gradient from both; the mean over processes is DDP's.
        expected = [loss.detach(), WORLD * grad_u[rows], WORLD * grad_v[rows], grad_temperature]
        torch.testing.assert_close(outcomes[rank][name], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_ddp_has_the_gradients_of_one_process(outcomes: list[dict[str, Any]]) -> None:
    x, y = (z.detach() for z in pairs(7, 4))
    model = _encoder()
    contrastive_loss(model(x), model(y), temperature=0.2).backward()
    expected = [p.grad for p in model.parameters()]
    assert len(expected) == 4
    for outcome in outcomes:
        torch.testing.assert_close(outcome["ddp"], expected, rtol=1e-11, atol=1e-14)


@pytest.mark.slow
def test_rows_come_in_the_order_of_the_ranks(outcomes: list[dict[str, Any]]) -> None:
    for outcome in outcomes:
        assert outcome["joined"].tolist() == [[1, 1], [2, 2], [2, 2]]


@pytest.mark.slow
def test_a_group_is_kept_to(outcomes: list[dict[str, Any]]) -> None:
    assert [outcome["subgroup"].tolist() for outcome in outcomes] == [[[1], [1]], [[2], [2]]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "width",
            (
                "x must have the same width and dtype on every process; "
                "got torch.float32 of width 3, torch.float32 of width 4"
            ),
        ),
        (
            "dtype",
            (
                "x must have the same width and dtype on every process; "
                "got torch.float32 of width 3, torch.float64 of width 3"
            ),
        ),
        ("nan", "u must be finite; got nan in row 2"),
        ("too few", "u must hold at least 2 embeddings of at least 1 dimension; got shape (1, 2)"),
    ],
)
def test_an_error_of_one_process_is_raised_on_all(outcomes: list[dict[str, Any]], name: str, text: str) -> None:
    assert [outcome[name] for outcome in outcomes] == [text, text]


@pytest.mark.slow
def test_pairs_that_would_be_mismatched_are_refused(outcomes: list[dict[str, Any]]) -> None:
    """(2, 3) rows and (3, 2) join to five and five, but not to pairs."""
    assert outcomes[0]["swapped"] == "v must have the shape of u, (2, 2); got (3, 2)"
    assert outcomes[1]["swapped"] == "v must have the shape of u, (3, 2); got (2, 2)"


@pytest.mark.slow
def test_after_the_errors_the_processes_still_meet(outcomes: list[dict[str, Any]]) -> None:
    for outcome in outcomes:
        assert outcome["after"].tolist() == [[1], [2]]


def test_without_a_process_group_it_is_the_identity() -> None:
    u, v = pairs(4, 3)
    assert gather(u) is u
    assert torch.equal(gathered_contrastive_loss(u, v, temperature=0.3), contrastive_loss(u, v, temperature=0.3))
