"""The same remaining batches after a restart: in mid-epoch, at both ends, and whatever the bank has seen since."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.sampling._helpers import DIM, Spy, filled, pairs

from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, Sharding
from batchcut.selection import Cut, Ordered, Request, Selector, Shuffle

N, B, K = 43, 5, 8
NOTHING_RECORDED = "ignore:nothing was recorded:RuntimeWarning"  # an epoch that would be planned begins with none


def new(**settings: Any) -> PlannedBatchSampler:
    return PlannedBatchSampler(EmbeddingBank(N, DIM), **({"batch_size": B, "seed": 1} | settings))


def train(sampler: PlannedBatchSampler, batches: Any, limit: int | None = None) -> list[list[int]]:
    """Draws batches, and records what a model that changes with each step would give."""
    drawn: list[list[int]] = []
    while limit is None or len(drawn) < limit:
        batch = next(batches, None)
        if batch is None:
            break
        rows = torch.tensor(batch)
        sampler.record(rows, *(side[rows] for side in pairs(N, seed=sampler.bank.clock)))
        drawn.append(batch)
    return drawn


def through_disk(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    torch.save(state, folder / "state.pt")
    loaded: dict[str, Any] = torch.load(folder / "state.pt")  # with weights_only, as is the default
    return loaded


@pytest.mark.filterwarnings(NOTHING_RECORDED)
@pytest.mark.parametrize("told", [True, False], ids=["set_epoch", "by itself"])
@pytest.mark.parametrize("position", [0, 1, 5, K])
@pytest.mark.parametrize("epoch", [0, 1, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"replan_every": 3},
        {"drop_last": False},
        {"shuffled_epochs": 0},
        {"selector": Ordered(k=2)},
        {"plan_ahead": 0.5},
    ],
    ids=str,
)
def test_same_batches_from_anywhere(
    settings: dict[str, Any], epoch: int, position: int, told: bool, tmp_path: Path
) -> None:
    whole = new(**settings)
    position = min(position, 4) if "selector" in settings and epoch else position
    for before in range(epoch):
        if told:
            whole.set_epoch(before)
        train(whole, iter(whole))
    if told:
        whole.set_epoch(epoch)
    under_way = iter(whole)
    train(whole, under_way, position)
    state = through_disk({"sampler": whole.state_dict(), "bank": whole.bank.state_dict()}, tmp_path)
    rest = train(whole, under_way)
    if told:
        whole.set_epoch(epoch + 1)
    following = train(whole, iter(whole))

    again = new(**settings)
    again.load_state_dict(state["sampler"])
    again.bank.load_state_dict(state["bank"])
    if told:
        again.set_epoch(epoch)
    assert len(again) == position + len(rest)
    assert train(again, iter(again)) == rest
    if told:
        again.set_epoch(epoch + 1)
    assert train(again, iter(again)) == following
    assert again.epoch == epoch + 1


def test_the_state_holds_the_plan_since_the_bank_moves_on() -> None:
    """From the bank at the time of the state, another plan would come out."""
    first = new(shuffled_epochs=0)
    first.bank.record(torch.arange(N), *pairs(N))
    under_way = iter(first)
    train(first, under_way, 4)
    state = first.state_dict()
    calls: list[Any] = []
    second = PlannedBatchSampler(filled(N, seed=9), batch_size=B, seed=1, shuffled_epochs=0)
    second.load_state_dict(state)
    rest = list(second)
    assert rest == list(under_way)
    assert second.plan is None
    anew = PlannedBatchSampler(filled(N, seed=9), batch_size=B, seed=1, shuffled_epochs=0, selector=Spy(calls=calls))
    assert list(anew)[4:] != rest
    assert len(calls) == 1


@pytest.mark.filterwarnings(NOTHING_RECORDED)
def test_an_epoch_shuffled_for_want_of_records_stays_so() -> None:
    """When it is gone on with there are records, but they must not make a plan of it."""
    first = new(shuffled_epochs=0)
    under_way = iter(first)
    train(first, under_way, 3)
    second = new(shuffled_epochs=0)
    second.bank.load_state_dict(first.bank.state_dict())
    second.load_state_dict(first.state_dict())
    assert list(second) == list(under_way)


def test_goes_on_in_a_later_epoch_of_a_plan_that_lasts() -> None:
    first = new(replan_every=3, shuffled_epochs=0)
    first.bank.record(torch.arange(N), *pairs(N))
    list(first)
    train(first, iter(first))
    under_way = iter(first)
    train(first, under_way, 2)
    assert first.epoch == 2
    second = PlannedBatchSampler(filled(N, seed=5), batch_size=B, seed=1, replan_every=3, shuffled_epochs=0)
    second.load_state_dict(first.state_dict())
    assert list(second) == list(under_way)
    assert second.state_dict()["made_in"] == 0
    second.set_epoch(3)
    list(second)
    assert second.state_dict()["made_in"] == 3


def test_a_state_is_cheap_and_fresh() -> None:
    sampler = PlannedBatchSampler(filled(N), batch_size=B, shuffled_epochs=0)
    iterator = iter(sampler)
    next(iterator)
    first = sampler.state_dict()
    next(iterator)
    second = sampler.state_dict()
    assert (first["position"], second["position"]) == (1, 2)
    assert first["batches"] is second["batches"]  # not copied
    assert isinstance(first["batches"], bytes)
    assert len(first["batches"]) == 4 * K * B
    shuffled = new()
    next(iter(shuffled))
    assert shuffled.state_dict()["batches"] is None


def test_position_as_the_caller_counts_it() -> None:
    first = PlannedBatchSampler(filled(N), batch_size=B, shuffled_epochs=0)
    batches = list(first)
    for position in (0, 3, K - 1):
        second = PlannedBatchSampler(filled(N, seed=4), batch_size=B, shuffled_epochs=0)
        second.load_state_dict(first.state_dict(position=position))
        assert list(second) == batches[position:]


def test_set_epoch_to_another_epoch_leaves_the_state_behind() -> None:
    first = PlannedBatchSampler(filled(N), batch_size=B)
    next(iter(first))
    second = PlannedBatchSampler(filled(N), batch_size=B)
    second.load_state_dict(first.state_dict())
    second.set_epoch(4)
    assert len(list(second)) == K


def test_an_iterator_thrown_away_does_not_use_up_the_state() -> None:
    """A DataLoader with workers asks for two iterators and draws from the second."""
    first = PlannedBatchSampler(filled(N), batch_size=B)
    under_way = iter(first)
    next(under_way)
    second = PlannedBatchSampler(filled(N), batch_size=B)
    second.load_state_dict(first.state_dict())
    iter(second)
    assert list(second) == list(under_way)


def test_a_state_of_another_momentum() -> None:
    def of(momentum: float) -> PlannedBatchSampler:
        return PlannedBatchSampler(EmbeddingBank(N, DIM, momentum=momentum), batch_size=B)

    state = of(0.5).state_dict()
    of(0.5).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state must be of a sampler with momentum = 0.0; got 0.5$"):
        of(0.0).load_state_dict(state)
    older = {name: value for name, value in of(0.0).state_dict().items() if name != "momentum"}
    of(0.0).load_state_dict(older)
    with pytest.raises(ValueError, match=r"^state must be of a sampler with momentum = 0.5; got 0.0$"):
        of(0.5).load_state_dict(older)


def test_after_a_state_is_gone_on_with_epochs_go_on_too() -> None:
    first = PlannedBatchSampler(filled(N), batch_size=B)
    next(iter(first))
    second = PlannedBatchSampler(filled(N), batch_size=B)
    second.load_state_dict(first.state_dict())
    assert [len(list(second)) for _ in range(3)] == [K - 1, K, K]
    assert second.epoch == 2


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"batch_size": 6}, "batch_size = 6"),
        ({"seed": 2}, "seed = 2"),
        ({"selector": Cut(rounds=2)}, r"selector = 'Cut\(pool=None, rounds=2, .*'"),
        ({"selector": Shuffle()}, r'selector = "Shuffle\(.*"'),
        ({"groups": np.arange(N) // 2}, r"groups = \d+"),
        ({"drop_last": False}, "drop_last = False"),
        ({"temperature": 0.2}, "temperature = 0.2"),
        ({"average_views": True}, "average_views = True"),
        ({"replan_every": 2}, "replan_every = 2"),
        ({"shuffled_epochs": 2}, "shuffled_epochs = 2"),
        ({"plan_ahead": 0.1}, "plan_ahead = 0.1"),
        ({"multiple_of": 2}, "multiple_of = 2"),
        ({"sharding": Sharding(world_size=2)}, "world_size = 2"),
    ],
    ids=str,
)
def test_a_state_of_another_sampler(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=rf"^state must be of a sampler with {name}; got .*$"):
        new(**settings).load_state_dict(new().state_dict())


def test_a_state_of_another_bank() -> None:
    other = PlannedBatchSampler(filled(44), batch_size=B, seed=1)
    with pytest.raises(ValueError, match=r"^state must be of a sampler with n = 43; got 44$"):
        new().load_state_dict(other.state_dict())


def test_a_state_that_is_broken() -> None:
    sampler = PlannedBatchSampler(filled(N), batch_size=B, seed=1, shuffled_epochs=0)
    list(sampler)
    state = sampler.state_dict()
    packed = state["batches"]
    left_out = set(range(N)) - set(np.frombuffer(packed, "<i4").tolist())
    absent = min(left_out).to_bytes(4, "little")
    for change, message in [
        ({"position": 9}, r"^state\['position'\] must be at most 8; got 9$"),
        ({"epoch": -1}, r"^state\['epoch'\] must be at least 0; got -1$"),
        ({"made_in": -1}, r"^state\['made_in'\] must be at least 0; got -1$"),
        ({"batches": state["batches"][:-4]}, r"^state\['batches'\] must hold 160 bytes, for 8 batches of 5; got 156$"),
        ({"batches": bytes(160)}, r"^state\['batches'\] must hold no sample twice in one batch; got sample 0$"),
        ({"batches": b"\xff" * 160}, r"^state\['batches'\] must be full, but for -1 at the end of the last row; got "),
        ({"batches": packed[:12] + b"\xff" * 4 + packed[16:]}, r"^state\['batches'\] must be full, but for -1 at "),
        (
            {"batches": packed[:-4] + b"\xff" * 4},
            r"^state\['batches'\] must hold the 40 samples of .*; got 39 samples$",
        ),
        (
            {"batches": packed[20:40] + packed[20:]},
            r"^state\['batches'\] must hold each sample once where repeats=False",
        ),
        ({"batches": packed[:156] + absent}, r"^state\['batches'\] must hold the 40 samples of epoch 0; got sample "),
        ({"format": 0}, r"^state must be of a sampler with format = 1; got 0$"),
        ({"batches": b"\xff\xff\xff\x7f" * 40}, r"^state\['batches'\] must hold indices below 43; got 2147483647$"),
    ]:
        with pytest.raises(ValueError, match=message):
            sampler.load_state_dict(state | change)
        assert sampler.state_dict() == state  # as before
    with pytest.raises(TypeError, match=r"^state\['batches'\] must be bytes; got int$"):
        sampler.load_state_dict(state | {"batches": 3})
    with pytest.raises(ValueError, match=r"^state must be of a PlannedBatchSampler; got no batches, epoch, .*$"):
        sampler.load_state_dict({})
    with pytest.raises(TypeError, match=r"^state must be of a PlannedBatchSampler; got NoneType$"):
        sampler.load_state_dict(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^position must be at most 8; got 9$"):
        sampler.state_dict(position=9)


def test_a_selector_without_a_record_is_known_by_its_name() -> None:
    class Mine(Selector):
        def choose(self, request: Request) -> Any:
            return request.shuffled()

    class Other(Mine):
        pass

    new(selector=Mine()).load_state_dict(new(selector=Mine()).state_dict())
    with pytest.raises(
        ValueError, match=r"^state must be of a sampler with selector = '.*Other\(\)'; got '.*Mine\(\)'"
    ):
        new(selector=Other()).load_state_dict(new(selector=Mine()).state_dict())


def test_any_process_can_go_on_from_the_state_of_the_first() -> None:
    bank = filled(N)
    first, second = (
        PlannedBatchSampler(
            bank, batch_size=B, shuffled_epochs=0, sharding=Sharding(rank=rank, world_size=2, together=False)
        )
        for rank in (0, 1)
    )
    expected = list(second)
    under_way = iter(first)
    next(under_way)
    other = PlannedBatchSampler(
        filled(N, seed=3), batch_size=B, shuffled_epochs=0, sharding=Sharding(rank=1, world_size=2, together=False)
    )
    other.load_state_dict(first.state_dict())
    assert list(other) == expected[1:]


RUN = """
import os, signal, sys
import torch
torch.set_num_threads(1)
from tests.sampling.test_resume import checkpointed
checkpointed(sys.argv[1], kill_after=int(sys.argv[2]), plan_ahead=float(sys.argv[3]))
"""


def checkpointed(folder: str, *, kill_after: int, plan_ahead: float) -> None:
    """Three epochs with a checkpoint at each step, gone on with if there is one, and killed after so many steps."""
    sampler, place, step = new(plan_ahead=plan_ahead), Path(folder), 0
    if (place / "state.pt").exists():
        state = torch.load(place / "state.pt")
        sampler.load_state_dict(state["sampler"])
        sampler.bank.load_state_dict(state["bank"])
    for epoch in range(sampler.epoch, 3):
        sampler.set_epoch(epoch)
        batches = iter(sampler)
        while batch := train(sampler, batches, 1):
            with (place / "log").open("a") as log:
                print(json.dumps([epoch, batch]), file=log)
            torch.save({"sampler": sampler.state_dict(), "bank": sampler.bank.state_dict()}, place / "new")
            (place / "new").replace(place / "state.pt")
            step += 1
            if step == kill_after:
                os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(("kill_after", "plan_ahead"), [(11, 0.0), (11, 0.5), (14, 0.5)])
def test_killed_and_started_again_it_trains_on_the_same_batches(
    kill_after: int, plan_ahead: float, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    checkpointed(str(whole), kill_after=0, plan_ahead=plan_ahead)
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    for steps in (kill_after, 0):
        command = [sys.executable, "-c", RUN, str(killed), str(steps), str(plan_ahead)]
        done = subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": path})
        assert done.returncode == (-signal.SIGKILL if steps else 0)
    assert len((whole / "log").read_text().splitlines()) == 3 * K
    assert (killed / "log").read_text() == (whole / "log").read_text()
