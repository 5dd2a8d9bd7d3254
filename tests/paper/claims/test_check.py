import math

import pytest

from batchcut.paper.claims import Check, checks, labels, run_checks
from batchcut.paper.claims._check import least, worst


def outcome(measured: float, relation: str, bound: float, tolerance: float = 0.0, erratum: int | None = None) -> Check:
    return Check(
        label="thm:x",
        claim="x",
        measured=measured,
        relation=relation,  # type: ignore[arg-type]
        bound=bound,
        tolerance=tolerance,
        erratum=erratum,
    )


@pytest.mark.parametrize(
    ("measured", "relation", "bound", "tolerance", "margin", "holds"),
    [
        (1.0, "<=", 1.5, 0.0, 0.5, True),
        (2.0, "<=", 1.5, 0.0, -0.5, False),
        (1.5, "<=", 1.5, 0.0, 0.0, True),
        (2.0, ">=", 1.5, 0.0, 0.5, True),
        (1.0, ">=", 1.5, 0.25, -0.25, False),
        (1.5, ">", 1.5, 0.0, 0.0, False),
        (1.0, "=", 1.25, 0.5, 0.25, True),
        (2.0, "=", 1.25, 0.5, -0.25, False),
        (math.nan, "<=", 1.0, 0.0, math.nan, False),
    ],
)
def test_margin(measured: float, relation: str, bound: float, tolerance: float, margin: float, holds: bool) -> None:
    check = outcome(measured, relation, bound, tolerance)
    assert check.margin == pytest.approx(margin, nan_ok=True)
    assert check.holds is holds


def test_known_mistake_is_expected_to_fail() -> None:
    assert outcome(2.0, "<=", 1.0, erratum=8).as_expected
    assert not outcome(0.5, "<=", 1.0, erratum=8).as_expected
    assert not outcome(math.nan, "<=", 1.0, erratum=8).as_expected
    assert not outcome(2.0, "<=", 1.0).as_expected


def test_worst_and_least_do_not_hide_nan() -> None:
    assert worst([1.0, 3.0, 2.0]) == 3
    assert least([1.0, 3.0, 2.0]) == 1
    assert math.isnan(worst([1.0, math.nan]))
    assert math.isnan(least([math.nan, 1.0]))


def test_unknown_label() -> None:
    with pytest.raises(ValueError, match=r"label must be a name that is known; got 'thm:nonsense'\n.*batchcut theory"):
        checks("thm:nonsense")


def test_label_selects_its_checks() -> None:
    assert {check.label for check in run_checks("lem:lclipnonquasiconvex")} == {"lem:lclipnonquasiconvex"}


def test_each_check_reports_the_label_under_which_it_stands() -> None:
    cheap = ["prop:prop1", "lem:lclipnonquasiconvex", "thm:ncb-is-necessary2"]
    assert set(cheap) <= set(labels())
    for label in cheap:
        assert all(check.label == label for check in run_checks(label))
