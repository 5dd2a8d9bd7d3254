"""A claim of the paper, tried: what was measured, what was claimed, and by what margin it holds."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Literal

from batchcut._errors import unknown_name
from batchcut.theory import one_thread

Relation = Literal["<=", ">=", ">", "="]

OURS = "effective batch size"
"""The label of claims that the paper does not make: ours."""

Measured = tuple[float, Iterable[tuple[str, str]]]
"""The number that decides, and (setting, outcome) rows for a closer look."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """The outcome of trying one claim.

    Attributes:
        label: LaTeX label of the claim in the paper.
        claim: the claim in one line.
        measured: the number that decides, the worst over all that was tried.
        relation: how `measured` must stand to `bound`.
        bound: the claimed bound or value.
        tolerance: what rounding, or a value that the paper rounds, may cost.
        detail: (setting, outcome) rows, for a closer look.
        erratum: number in the list of errata, for a claim that is known not to hold as printed.
    """

    label: str
    claim: str
    measured: float
    relation: Relation
    bound: float
    tolerance: float = 0.0
    detail: tuple[tuple[str, str], ...] = ()
    erratum: int | None = None

    @property
    def margin(self) -> float:
        """How much room is left: below 0 where the claim does not hold."""
        if self.relation == "=":
            return self.tolerance - abs(self.measured - self.bound)
        room = self.bound - self.measured if self.relation == "<=" else self.measured - self.bound
        return room + self.tolerance

    @property
    def holds(self) -> bool:
        """Whether the claim came out true."""
        return self.margin > 0 if self.relation == ">" else self.margin >= 0

    @property
    def as_expected(self) -> bool:
        """Whether the claim holds or, if it is a known mistake of the paper, does not."""
        return self.holds == (self.erratum is None) and not math.isnan(self.measured)


CheckFunction = Callable[[], Check]

_CHECKS: dict[CheckFunction, str] = {}


def states(
    text: str,
    relation: Relation,
    bound: float | Callable[[], float],
    *,
    tolerance: float = 0.0,
    erratum: int | None = None,
) -> Callable[[Callable[[], Measured]], Callable[[str], Check]]:
    """Says what a function that measures must come to: fields of `Check`; `bound` may be a function that gives it."""

    def decorate(measure: Callable[[], Measured]) -> Callable[[str], Check]:
        @wraps(measure)
        def check(label: str) -> Check:
            measured, detail = measure()
            return Check(
                label=label,
                claim=text,
                measured=measured,
                relation=relation,
                bound=bound() if callable(bound) else bound,
                tolerance=tolerance,
                detail=tuple(detail),
                erratum=erratum,
            )

        return check

    return decorate


def claim(label: str) -> Callable[[Callable[[str], Check]], CheckFunction]:
    """Registers a check under the label of the claim that it tries."""

    def register(check: Callable[[str], Check]) -> CheckFunction:
        @wraps(check)
        def labeled() -> Check:
            return check(label)

        _CHECKS[labeled] = label
        return labeled

    return register


def labels() -> list[str]:
    """The labels for which there is a check, in the paper's order, and then ours."""
    return list(dict.fromkeys(_CHECKS.values()))


def checks(label: str | None = None) -> list[CheckFunction]:
    """The checks of a label, or all of them."""
    if label is not None and label not in _CHECKS.values():
        raise unknown_name("label", label, labels(), listed="`batchcut theory` (about a minute)")
    return [function for function, its_label in _CHECKS.items() if label in (None, its_label)]


def run_checks(label: str | None = None) -> Iterator[Check]:
    """Tries the claims of a label, or all of them, one by one."""
    for function in checks(label):
        with one_thread():
            outcome = function()
        yield outcome


def worst(values: Iterable[float]) -> float:
    """The largest value; NaN if any is, so that a failed computation cannot pass."""
    values = list(values)
    return math.nan if any(math.isnan(value) for value in values) else max(values)


def least(values: Iterable[float]) -> float:
    """The smallest value; NaN if any is."""
    return -worst(-value for value in values)
