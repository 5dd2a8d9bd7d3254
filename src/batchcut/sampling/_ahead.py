"""The plan of the next epoch, made in the background while this one trains.

`PlannedBatchSampler.record` begins it by `Planner.begin`, from a copy of the bank; `Planner.finish` waits for it when
the epoch begins, in the place of `Planner.make`.
"""

import math
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Self
from weakref import finalize

from batchcut._interrupts import Task
from batchcut._progress import Progress, silent
from batchcut.selection import BatchPlan

_LONGEST_FAREWELL = 5.0  # seconds
_DIGITS = 9  # so that (1 - 0.7) * 10 is 3


def step_to_plan_at(steps: int, plan_ahead: float) -> int:
    """The step, out of 1 to `steps`, after which the next epoch is planned: ⌈(1 − plan_ahead) · steps⌉."""
    return max(1, math.ceil(round((1 - plan_ahead) * steps, _DIGITS)))


class StoppedError(Exception):
    """Ends planning that nobody waits for."""


class PlanAhead:
    """The plan of an epoch to come: under way in a thread, or done, or with the first process.

    A plan that is let go of is stopped at the next share of the work that is told. At the end of the interpreter, too,
    which then waits for the thread: one that came back from compiled code to an interpreter that is gone could crash.

    Args:
        epoch: which one.
        outcome: where all processes have it.

    Attributes:
        outcome: the plan, or what was raised while it was made; None as long as not all processes have it.
    """

    def __init__(self, epoch: int, outcome: BatchPlan | Exception | None = None) -> None:
        self.epoch = epoch
        self.outcome = outcome
        self._task: Task[BatchPlan] | None = None

    @classmethod
    def begun(cls, epoch: int, make: Callable[[Progress], BatchPlan], progress: Progress | None) -> Self:
        """Begins to make a plan in a thread, which tells its progress there."""
        ahead, stopped, tell = cls(epoch), threading.Event(), progress or silent

        def told(share: float) -> None:
            # Before the interpreter ends it waits for the helpers of this thread, which go on as long as it does.
            if stopped.is_set() or not threading.main_thread().is_alive():
                raise StoppedError
            tell(share)

        ahead._task = Task(make, told)
        finalize(ahead, _end, stopped, ahead._task)
        return ahead

    def wait(self) -> None:
        """Waits until no thread is at work, whatever came out: before a loader forks its workers, say."""
        if self._task is not None:
            self._task.wait()

    @property
    def is_made_here(self) -> bool:
        """Whether it is under way in this process, or was."""
        return self._task is not None

    @cached_property
    def found(self) -> BatchPlan | Exception:
        """The outcome, for this process alone if it is not there for all yet; waits for it."""
        if self.outcome is not None:
            return self.outcome
        if self._task is None:
            raise RuntimeError("the plan of the next epoch is with the first process: call join() on all of them first")
        self.wait()  # not below: what a signal raises while this waits is no failure of the plan
        try:
            return self._task.result()
        except Exception as error:
            return error

    @cached_property
    def packed(self) -> bytes | None:
        """The plan as bytes, for a state; None if it failed, to be made when its epoch begins. Waits for it."""
        return None if isinstance(self.found, Exception) else self.found.packed()

    def without_thread(self) -> "PlanAhead | None":
        """The same plan for a copy of a sampler; None if it failed, as in a state. Waits for it."""
        return None if isinstance(self.found, Exception) else PlanAhead(self.epoch, self.found)


def _end(stopped: threading.Event, task: Task[BatchPlan]) -> None:
    stopped.set()
    if not threading.main_thread().is_alive():
        task.wait(_LONGEST_FAREWELL)
