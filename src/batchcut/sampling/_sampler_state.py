"""What the state of a sampler must hold to fit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from batchcut._errors import check_flag, check_integer, invalid, wrong_type
from batchcut.selection import BatchPlan, check_batches

from ._ahead import PlanAhead
from ._planner import Indices, Made, Planner

FORMAT = 1
"""Of a state; to be counted up when the same settings begin to give other batches."""


_OLDER = {"drop_conflicts": False, "momentum": 0.0, "plan_ahead": 0.0, "recorded": 0, "ahead": None}
"""What states mean that are older than these entries."""


def checked_identity(state: object, identity: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state, with all entries that there are by now; that of a sampler with other settings is refused."""
    if not isinstance(state, Mapping):
        raise wrong_type("state", "be of a PlannedBatchSampler", state)
    state = {**_OLDER, **state}
    missing = {"epoch", "position", "over", "made_in", "batches"} - set(state)
    if missing:
        raise invalid("state", "be of a PlannedBatchSampler", f"no {', '.join(sorted(missing))}")
    for name, value in identity.items():
        found = state.get(name)
        if not isinstance(found, bool | int | float | str | None) or found != value:
            raise invalid("state", f"be of a sampler with {name} = {value!r}", repr(found))
    check_flag("state['over']", state["over"])
    if state["made_in"] is None and state["batches"] is not None:
        raise invalid("state['batches']", "be None where state['made_in'] is", type(state["batches"]).__name__)
    return state


def made_of(state: Mapping[str, Any], planner: Planner) -> Made | None:
    """The batches of the epoch that a state is from, if they were made."""
    if state["made_in"] is None:
        return None
    epoch = check_integer("state['made_in']", state["made_in"], at_least=0, at_most=state["epoch"])
    if state["batches"] is None:
        return Made(epoch, planner.shuffled(epoch), planned=False)
    shape = (planner.count(planned=True), planner.batch_size)
    if not isinstance(state["batches"], bytes):
        raise wrong_type("state['batches']", "be bytes", state["batches"])
    if len(state["batches"]) != 4 * shape[0] * shape[1]:
        rule = f"hold {4 * shape[0] * shape[1]} bytes, for {shape[0]} batches of {shape[1]}"
        raise invalid("state['batches']", rule, len(state["batches"]))
    batches = Made.unpacked(state["batches"], shape[1])
    _check_samples("state['batches']", batches, epoch, planner)
    return Made(epoch, batches, planned=True)


def ahead_of(state: Mapping[str, Any], planner: Planner) -> PlanAhead | None:
    """A plan that was begun before the state was taken: of the next epoch, or of one whose first batch is not drawn."""
    packed, epoch = state["ahead"], state["epoch"]
    if packed is None:
        return None
    if not isinstance(packed, bytes):
        raise wrong_type("state['ahead']", "be bytes", packed)
    plan = BatchPlan.unpacked(packed)
    shape = (planner.count(planned=True), planner.batch_size)
    if plan.epoch not in (epoch, epoch + 1) or plan.batches.shape != shape:
        got = f"{plan.batches.shape[0]} of {plan.batches.shape[1]} for epoch {plan.epoch}"
        rule = f"hold {shape[0]} batches of {shape[1]} for epoch {epoch} or {epoch + 1}"
        raise invalid("state['ahead']", rule, got)
    _check_samples("state['ahead']", plan.batches, plan.epoch, planner)
    return PlanAhead(plan.epoch, plan)


def _check_samples(argument: str, batches: Indices, epoch: int, planner: Planner) -> None:
    """Refuses batches of other samples than those of an epoch."""
    covers = planner.covers(planned=True)
    check_batches(argument, batches, len(planner.bank), repeats=not covers)
    foreign = np.setdiff1d(batches[batches >= 0], planner.used(epoch))
    if len(foreign) or (covers and int((batches >= 0).sum()) != planner.used_count):
        got = f"sample {foreign[0]}" if len(foreign) else f"{int((batches >= 0).sum())} samples"
        raise invalid(argument, f"hold the {planner.used_count} samples of epoch {epoch}", got)
