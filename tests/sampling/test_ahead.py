"""Plans made in the background: from what the bank holds at a fixed step, and the same whatever happens on the way."""

import copy
import gc
import itertools
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling._helpers import DIM, Called, Spy, data_set, pairs
from torch.utils.data import DataLoader

from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, PlannedLoader
from batchcut.sampling._ahead import StoppedError, step_to_plan_at
from batchcut.selection import BatchPlan, Cut, Shuffle

N, B, K, AT = 43, 5, 8, 5  # ⌈0.6 · 8⌉ = 5
PATIENCE = 60.0


def new(**changes: Any) -> PlannedBatchSampler:
    how: dict[str, Any] = {"batch_size": B, "seed": 1, "selector": Cut(threads=1), "plan_ahead": 0.4}
    return PlannedBatchSampler(EmbeddingBank(N, DIM), **(how | changes))


def record(sampler: PlannedBatchSampler, batch: list[int]) -> list[int]:
    """What a model that changes with each step would give."""
    index = torch.tensor(batch)
    sampler.record(index, *(side[index] for side in pairs(N, seed=sampler.bank.clock)))
    return batch


def train(sampler: PlannedBatchSampler, batches: Any = None) -> list[list[int]]:
    return [record(sampler, batch) for batch in (sampler if batches is None else batches)]


@dataclass(frozen=True, kw_only=True)
class Gated(Called):
    """`Cut`, once a gate is open; tells its progress while it waits, and notes what ended it."""

    gate: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    notes: list[Any] = field(default_factory=list)

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        self.notes.append(threading.current_thread())
        self.begun.set()
        try:
            while not self.gate.wait(0.01):
                arguments["progress"](0.0)
            return Cut(threads=1)(u, v, **arguments)
        except BaseException as error:
            self.notes.append(type(error))
            raise
        finally:
            self.ended.set()

    def __repr__(self) -> str:
        return "Gated()"


class Fails(Called):
    """A selector that cannot plan."""

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        raise ArithmeticError("no plan today")


class FailsAhead(Called):
    """`Cut`, but for a thread, in which it cannot plan."""

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        if threading.current_thread() is not threading.main_thread():
            raise ArithmeticError("no plan today")
        return Cut(threads=1)(u, v, **arguments)


@given(steps=st.integers(1, 10**6), hundredths=st.integers(0, 99))
def test_the_step_is_that_of_exact_arithmetic(steps: int, hundredths: int) -> None:
    exact = math.ceil((1 - Fraction(hundredths, 100)) * steps)
    assert step_to_plan_at(steps, hundredths / 100) == exact


@pytest.mark.parametrize("ahead", [0.1, 0.4, 0.99])
@pytest.mark.parametrize("changes", [{}, {"drop_last": False}, {"average_views": True}], ids=str)
def test_the_plan_is_that_of_a_copy_of_the_bank_at_the_step(ahead: float, changes: dict[str, Any]) -> None:
    sampler, expected = new(plan_ahead=ahead, **changes), None
    at = step_to_plan_at(len(sampler), ahead)
    for epoch in range(3):
        drawn, plan = [], sampler.plan
        for batch in sampler:
            drawn.append(record(sampler, batch))
            if len(drawn) == at:
                kept = copy.deepcopy(sampler.bank.state_dict())
        if expected is not None:
            assert drawn == list(expected)
            assert sampler.plan == expected.plan is not None
        assert (sampler.plan is plan) == (epoch == 0)
        expected = new(plan_ahead=0.0, **changes)
        expected.bank.load_state_dict(kept)
        expected.set_epoch(epoch + 1)


def test_batches_that_are_drawn_early_change_nothing() -> None:
    one, other = new(), new()
    for _ in range(3):
        assert train(one) == train(other, list(other))


def test_training_goes_on_while_a_plan_is_made_and_waits_for_it_in_the_end() -> None:
    selector = Gated()
    sampler, expected = new(selector=selector), new()
    assert train(sampler) == train(expected)  # although there is no plan yet
    assert selector.begun.wait(PATIENCE)
    threading.Timer(0.1, selector.gate.set).start()
    assert train(sampler) == train(expected)
    assert selector.notes[0] is not threading.main_thread()


def test_a_plan_is_begun_where_the_next_epoch_needs_one() -> None:
    calls: list[Any] = []
    sampler = new(selector=Spy(calls=calls), replan_every=2, shuffled_epochs=2)
    begun = []
    for _ in range(6):
        train(sampler)
        begun.append(sampler.state_dict()["ahead"] is not None)
    assert begun == [False, True, False, True, False, True]
    assert [call["epoch"] for call in calls] == [2, 4, 6]
    shuffled = new(selector=Shuffle())
    train(shuffled)
    assert shuffled.state_dict()["ahead"] is None


@pytest.mark.parametrize("stop", [0, AT - 1, AT, AT + 1, K, K + AT, 2 * K])
def test_the_loader_goes_on_to_the_bit_from_any_step(stop: int, tmp_path: Path) -> None:
    def loader() -> PlannedLoader:
        how: dict[str, Any] = {"batch_size": B, "seed": 1, "plan_ahead": 0.4, "selector": Cut(threads=1)}
        return PlannedLoader(data_set(N).dataset, **how)

    def steps(loader: PlannedLoader) -> Iterator[list[int]]:
        for _ in range(loader.epoch, 3):
            for _ in loader:
                loader.record(*(side[loader.index] for side in pairs(N, seed=loader.bank.clock)))
                yield loader.index.tolist()

    whole, again = loader(), loader()
    under_way, state = steps(whole), whole.state_dict()
    for _ in range(stop):
        next(under_way)
        state = whole.state_dict()
    torch.save(state, tmp_path / "state.pt")
    rest = list(under_way)
    again.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert list(steps(again)) == rest
    for name in ("u", "v", "recorded_at"):
        assert torch.equal(getattr(again.bank, name), getattr(whole.bank, name))
    assert again.plan == whole.plan
    assert again.state_dict()["sampler"] | {"ahead": None} == whole.state_dict()["sampler"] | {"ahead": None}


def test_an_exception_is_raised_when_the_next_epoch_begins_with_its_own_traceback() -> None:
    sampler = new(selector=Fails())
    assert len(train(sampler)) == K
    with pytest.raises(ArithmeticError, match=r"^no plan today$") as caught:
        next(iter(sampler))
    assert "__call__" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


@pytest.mark.parametrize("stop", [AT, AT + 1, K])
def test_states_and_copies_are_without_a_plan_that_failed(stop: int) -> None:
    sampler, again, plain = new(selector=FailsAhead()), new(selector=FailsAhead()), new(plan_ahead=0.0)
    drawn = iter(sampler)
    first = train(sampler, itertools.islice(drawn, stop))
    for _ in range(2):
        state = sampler.state_dict(position=stop)
        assert state["ahead"] is None
    duplicate = copy.deepcopy(sampler)
    again.bank.load_state_dict(copy.deepcopy(sampler.bank.state_dict()))
    again.load_state_dict(state)
    whole, planned = train(plain), list(plain)
    rest = train(sampler, drawn)
    assert first + rest == whole
    assert sampler.state_dict()["ahead"] is None
    with pytest.raises(ArithmeticError, match=r"^no plan today$"):
        list(sampler)
    for other in (again, duplicate):
        assert train(other) == rest
        assert list(other) == planned  # when the epoch begins, by all that was recorded
    assert list(sampler) == planned  # at the second try, too


class Interrupted(Called):
    """A selector that is ended by what is no failure of a plan."""

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        raise KeyboardInterrupt


def test_an_interrupt_is_no_plan_that_failed() -> None:
    sampler = new(selector=Interrupted())
    train(sampler)
    with pytest.raises(KeyboardInterrupt):
        sampler.state_dict()


class LateError(Exception):
    """What the handler of a signal raises."""


@pytest.mark.parametrize("waits", [PlannedBatchSampler.state_dict, list])
def test_what_a_signal_raises_while_a_plan_is_waited_for_is_no_failure_of_it(waits: Any) -> None:
    def ring(*_: object) -> None:
        raise LateError

    selector = Gated()
    sampler, expected = new(selector=selector), new()
    assert train(sampler) == train(expected)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(LateError):
            waits(sampler)
    finally:
        signal.signal(signal.SIGALRM, before)
    selector.gate.set()
    assert sampler.state_dict()["ahead"] is not None
    assert train(sampler) == train(expected)


@pytest.mark.parametrize("leave", ["let go of", "another epoch", "filled"])
def test_a_plan_that_nobody_waits_for_is_stopped(leave: str) -> None:
    selector = Gated()
    loader: Any = PlannedLoader(data_set(N).dataset, batch_size=B, selector=selector, plan_ahead=0.4)
    for _ in loader:
        loader.record(*(side[loader.index] for side in pairs(N)))
    assert selector.begun.wait(PATIENCE)
    if leave == "another epoch":
        loader.set_epoch(7)
    elif leave == "filled":
        loader.fill(lambda u, v: (u, v))
    else:
        del loader
        gc.collect()
    assert selector.ended.wait(PATIENCE)
    assert selector.notes[1:] == [StoppedError]
    if leave == "filled":
        assert loader.state_dict()["sampler"]["ahead"] is None


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler))])  # noqa: S301
def test_copies_take_the_plan_along(duplicate: Any) -> None:
    sampler = new()
    train(sampler)
    other = duplicate(sampler)
    other.bank.record(torch.arange(N), *pairs(N, seed=99))
    assert list(other) == list(sampler)
    assert other.plan == sampler.plan


def test_records_that_the_sampler_does_not_see() -> None:
    sampler = new()
    for batch in sampler:
        index = torch.tensor(batch)
        sampler.bank.record(index, *(side[index] for side in pairs(N)))
    rule = r"^plan_ahead needs sampler.record\(index, u, v\), or loader.record\(u, v\), in place of bank.record"
    with pytest.warns(RuntimeWarning, match=rule):
        assert len(train(sampler)) == K
    assert len(train(sampler)) == K  # said once; and this one was planned ahead


def test_a_plan_made_ahead_has_a_background() -> None:
    sampler, found = new(), []
    u, v = pairs(N)
    for _ in range(3):
        for step, batch in enumerate(sampler):
            index = torch.tensor(batch)
            found.append(sampler.background_of(index, step=step) is not None)
            sampler.record(index, u[index], v[index])
    assert found == [False] * (K + 1) + [True] * (2 * K - 1)  # first no sample was recorded twice


def test_the_progress_of_a_plan_is_told_by_its_thread() -> None:
    told: list[Any] = []
    sampler = new(progress=lambda share: told.append((share, threading.current_thread())))
    train(sampler)
    sampler.state_dict()
    assert told[-1][0] == 1
    assert threading.main_thread() not in [thread for _, thread in told]


def test_states_that_do_not_fit() -> None:
    sampler = new()
    train(sampler)
    state = sampler.state_dict()
    late = new(shuffled_epochs=0)
    late.set_epoch(5)
    late.bank.record(torch.arange(N), *pairs(N))
    list(late)
    assert late.plan is not None
    changes: list[tuple[dict[str, Any], str]] = [
        ({"plan_ahead": 0.2}, r"^state must be of a sampler with plan_ahead = 0.4; got 0.2$"),
        ({"recorded": -1}, r"^state\['recorded'\] must be at least 0; got -1$"),
        ({"ahead": b"PK"}, r"^a packed plan must be one by BatchPlan.packed; got one that fails: .*$"),
        (
            {"ahead": late.plan.packed()},
            r"^state\['ahead'\] must hold 8 batches of 5 for epoch 0 or 1; got 8 of 5 for epoch 5$",
        ),
    ]
    for change, message in changes:
        with pytest.raises(ValueError, match=message):
            sampler.load_state_dict(state | change)
    with pytest.raises(TypeError, match=r"^state\['ahead'\] must be bytes; got int$"):
        sampler.load_state_dict(state | {"ahead": 3})
    older = {name: value for name, value in new(plan_ahead=0.0).state_dict().items() if "ahead" not in name}
    del older["recorded"]
    new(plan_ahead=0.0).load_state_dict(older)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"prefetch_factor": 10}], ids=str)
def test_forked_workers_change_nothing(options: dict[str, Any]) -> None:
    """Those of the training loader, and those of another one that are forked while a plan is made."""
    selector = Gated()
    sampler, expected = new(selector=selector), new()
    workers: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork", "timeout": PATIENCE}
    loader = DataLoader(data_set(N), batch_sampler=sampler, **workers, **options)
    for _ in range(3):
        for event in (selector.gate, selector.begun, selector.ended):
            event.clear()
        drawn = [record(sampler, index.tolist()) for index, _ in loader]
        assert drawn == train(expected)
        assert selector.begun.wait(PATIENCE)
        other = DataLoader(data_set(N), batch_size=4, **workers)
        assert sum(len(index) for index, _ in other) == N
        selector.gate.set()
        assert selector.ended.wait(PATIENCE)  # before the gate is shut again


SCRIPT = """
import sys, threading, torch
import batchcut as bc
from tests.sampling._helpers import pairs
from tests.sampling.test_ahead import Gated

kind, end = sys.argv[1:]
count = 60 if kind == "gated" else 40_000
u, v = pairs(count, dim=64)
selector = Gated() if kind == "gated" else bc.Cut(threads=2)
begun = selector.begun if kind == "gated" else threading.Event()
data = torch.utils.data.TensorDataset(u, v)
how = {"batch_size": 20, "selector": selector, "plan_ahead": 0.5, "progress": lambda _: begun.set()}
loader = bc.PlannedLoader(data, **how)
for _ in loader:
    loader.record(u[loader.index], v[loader.index])
assert begun.wait(60)
try:
    print("planning", flush=True)  # after which the signal may come at any time
    if end == "interrupt":
        for _ in loader:  # waits for the plan
            pass
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["interrupt", "exit"])
@pytest.mark.parametrize("kind", ["gated", "cut"])
def test_a_process_ends_in_the_midst_of_a_plan(kind: str, end: str) -> None:
    """The gate is never opened: it would go on for ever."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, kind, end],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "planning\n"
        if end == "interrupt":
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, errors) == (130 if end == "interrupt" else 0, "")
