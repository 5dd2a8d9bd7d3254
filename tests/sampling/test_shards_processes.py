"""Real gloo processes with a bank in shards: the plan of one process to the letter, and none that waits for ever."""

import os
import signal
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests._processes import TIMEOUT, found_by, meet
from tests.sampling._helpers import flat, pairs
from tests.sampling.test_plan_shards import asked_of
from torch.multiprocessing import get_context

from batchcut.sampling import PlannedBatchSampler, ShardedBank, Sharding, _plan_shards, _together
from batchcut.selection import Cut, Selector

N, B, EPOCHS = 192, 8, 4
WIDE, DIM, CELL = 2048, 256, 128


class Breaks(Selector):
    """Cannot plan the cell of one sample, or ends its process there."""

    def __init__(self, how: str) -> None:
        object.__setattr__(self, "how", how)

    def choose(self, request: Any) -> Any:
        if 17 in request.samples.tolist():
            if self.how == "killed":  # type: ignore[attr-defined]
                os.kill(os.getpid(), signal.SIGKILL)
            raise ArithmeticError("no plan today")
        return Cut(threads=1).choose(request)


def train(sharding: Sharding) -> dict[str, Any]:
    """Some epochs, each process recording what it has seen; embeddings wander a little."""
    bank = ShardedBank(N, sharding=sharding, cell_samples=64)
    groups = np.random.default_rng(0).integers(0, 80, N)
    settings: dict[str, Any] = {"selector": Cut(threads=1), "seed": 2, "groups": groups}
    sampler = PlannedBatchSampler(bank, batch_size=B, sharding=sharding, **settings)
    (u, v), (x, _) = pairs(N), pairs(N, seed=1)
    epochs: list[list[list[int]]] = []
    plans, backgrounds = [], []
    for epoch in range(EPOCHS):
        epochs.append([])
        for step, index in enumerate(map(torch.tensor, sampler)):
            found = sampler.background_of(index, step=step)
            backgrounds += [] if found is None else [vars(found) | {"index": index}]
            bank.record(index, *(side[index] + 0.1 * epoch * x[index] for side in (u, v)))
            epochs[-1].append(index.tolist())
        plans.append(None if sampler.plan is None else sampler.plan.batches)
    bank.join()
    return {"epochs": epochs, "plans": plans, "backgrounds": backgrounds, "bank": bank.state_dict()}


def peak_of(sharding: Sharding) -> dict[str, int]:
    """Rows of the share, and as many rows as the peak of a plan takes beside it."""
    for module in (_together, _plan_shards):
        setattr(module, "ROWS_AT_ONCE", 64)  # noqa: B010 - mypy knows one owner of it
    bank = ShardedBank(WIDE, DIM, sharding=sharding, cell_samples=CELL)
    mine = torch.arange(sharding.rank, WIDE, sharding.world_size)
    bank.record(mine, *(side[mine] for side in pairs(WIDE, dim=DIM)))
    bank.join()
    asked = asked_of(WIDE, selector=Cut(threads=1, pool=2))
    _plan_shards.plan_shards(bank, asked, lambda _: None)  # what is compiled takes memory once
    tracemalloc.start()
    _plan_shards.plan_shards(bank, asked, lambda _: None)
    peak = tracemalloc.get_traced_memory()[1] // (2 * 4 * DIM)
    tracemalloc.stop()
    return {"share": len(bank.u), "beside": peak}


def broken(sharding: Sharding, how: str) -> str:
    bank = ShardedBank(N, sharding=sharding, cell_samples=64)
    settings: dict[str, Any] = {"selector": Breaks(how), "shuffled_epochs": 0}
    sampler = PlannedBatchSampler(bank, batch_size=B, sharding=sharding, **settings)
    bank.record(torch.arange(N), *pairs(N))
    try:
        list(sampler)
    except (ArithmeticError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def out_of_step(sharding: Sharding, *, epoch: int, shuffled_epochs: int) -> str:
    bank = ShardedBank(N, sharding=sharding, cell_samples=64)
    sampler = PlannedBatchSampler(bank, batch_size=B, sharding=sharding, shuffled_epochs=shuffled_epochs)
    bank.record(torch.arange(N), *pairs(N))
    sampler.set_epoch(epoch)
    try:
        list(sampler)
    except ValueError as error:
        return str(error)
    return "no error"


def all_jobs(rank: int, world: int, folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        mode: train(Sharding(rank=rank, world_size=world, mode=mode)) for mode in ("whole", "split")
    }
    sharding = Sharding(rank=rank, world_size=world)
    found["failure"] = broken(sharding, "fails")
    found["after all that"] = broken(sharding, "fails")
    found["epoch"] = out_of_step(sharding, epoch=1 + (rank > 0), shuffled_epochs=1)
    found["whether an epoch is planned"] = out_of_step(sharding, epoch=1, shuffled_epochs=1 + (rank > 0))
    found["peak"] = peak_of(sharding)
    return found


def survive(rank: int, folder: str) -> None:
    meet(rank, 2, folder)
    Path(f"{folder}/{rank}.txt").write_text(broken(Sharding(rank=rank, world_size=2), "killed"), encoding="utf-8")


@pytest.fixture(scope="module", params=[2, 4])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each process found; they are started once for all tests."""
    return found_by(request.param, tmp_path_factory.mktemp("processes"), all_jobs)


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return train(Sharding())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["whole", "split"])
def test_the_plan_is_that_of_one_process_to_the_letter(
    found: list[dict[str, Any]], alone: dict[str, Any], mode: str
) -> None:
    for rank in found:
        for plan, expected in zip(rank[mode]["plans"], alone["plans"], strict=True):
            assert (plan is None) == (expected is None)
            assert plan is None or np.array_equal(plan, expected)
    assert len({plan.tobytes() for plan in alone["plans"][1:]}) == EPOCHS - 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["whole", "split"])
def test_the_batches_are_those_of_one_process(found: list[dict[str, Any]], alone: dict[str, Any], mode: str) -> None:
    for epoch, expected in enumerate(alone["epochs"]):
        steps = zip(*(rank[mode]["epochs"][epoch] for rank in found), strict=True)
        assert [batch for step in steps for batch in (step if mode == "whole" else [flat(step)])] == expected
        assert sorted(flat(expected)) == list(range(N))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["whole", "split"])
def test_each_process_holds_its_share_of_one_bank(
    found: list[dict[str, Any]], alone: dict[str, Any], mode: str
) -> None:
    states = [rank[mode]["bank"] for rank in found]
    for side in ("u", "v"):
        assert torch.equal(torch.cat([state[side] for state in states]), alone["bank"][side])
    assert {len(state["u"]) for state in states} == {N // len(found)}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["whole", "split"])
def test_all_processes_have_one_background_of_rows_that_any_of_them_holds(
    found: list[dict[str, Any]], mode: str
) -> None:
    ranks = [rank[mode]["backgrounds"] for rank in found]
    assert len({len(rank) for rank in ranks}) == 1
    assert ranks[0]
    (u, _), (x, _) = pairs(N), pairs(N, seed=1)
    known = torch.cat([u + 0.1 * epoch * x for epoch in range(EPOCHS)])
    for step in zip(*ranks, strict=True):
        for other in step[1:]:
            assert torch.equal(other["u"], step[0]["u"])
            assert other["share"] == step[0]["share"]
        rows = step[0]["u"][step[0]["live"]]
        assert (rows[:, None] == known).all(dim=2).any(dim=1).all()


@pytest.mark.slow
def test_a_process_that_fails_fails_all_with_its_message(found: list[dict[str, Any]]) -> None:
    for name in ("failure", "after all that"):
        texts = [rank[name] for rank in found]
        failed = texts.index("ArithmeticError: no plan today")
        others = texts[:failed] + texts[failed + 1 :]
        assert set(others) == {f"RuntimeError: process {failed} failed: ArithmeticError: no plan today"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first", "other"), [("epoch", 1, 2), ("whether an epoch is planned", True, False)])
def test_processes_out_of_step_are_refused(
    found: list[dict[str, Any]], name: str, first: object, other: object
) -> None:
    rule = f"{name} must be the same in all processes; got"
    assert found[0][name] == f"{rule} {first} here, and {other} in process 1"
    assert {rank[name] for rank in found[1:]} == {f"{rule} {other} here, and {first} in process 0"}


@pytest.mark.slow
def test_beside_its_share_a_process_holds_the_cell_at_work(found: list[dict[str, Any]]) -> None:
    for rank in found:
        assert rank["peak"]["share"] == WIDE // len(found)
        assert rank["peak"]["beside"] < 4 * CELL  # the set has 16 cells


@pytest.mark.slow
def test_a_process_that_is_killed_keeps_no_other_waiting(tmp_path: Path) -> None:
    processes = [get_context("spawn").Process(target=survive, args=(rank, str(tmp_path))) for rank in range(2)]
    for one in processes:
        one.start()
    for one in processes:
        one.join(timeout=2 * TIMEOUT.total_seconds())
    codes = [one.exitcode for one in processes]
    assert sorted(codes, key=str) == [-signal.SIGKILL, 0], codes
    text = (tmp_path / f"{codes.index(0)}.txt").read_text(encoding="utf-8")
    assert text.startswith(("RuntimeError: ", "DistBackendError: "))
