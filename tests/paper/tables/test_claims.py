import copy
from typing import Any

from batchcut.paper.claims import labels, run_checks
from batchcut.paper.tables import claims


def data_of(*chosen: str) -> Any:
    return {"checks": [claims._as_data(check) for label in chosen for check in run_checks(label)], "left_out": []}


def test_verdict_of_sound_and_unsound_claims() -> None:
    data = data_of("lem:lclipnonquasiconvex", "thm:ncb-is-necessary2")
    verdict = claims.judge(data)
    assert verdict.word == "agrees in part"
    assert verdict.findings[0].agrees
    assert all("erratum" in finding.why for finding in verdict.findings[1:])
    assert not any(finding.agrees for finding in verdict.findings[1:])


def test_each_finding_can_come_out_the_other_way() -> None:
    data = data_of("lem:lclipnonquasiconvex")
    failed = copy.deepcopy(data)
    for check in failed["checks"]:
        check["holds"] = not check["holds"]
    before, after = ([finding.agrees for finding in claims.judge(each).findings] for each in (data, failed))
    assert before == [not agrees for agrees in after]
    assert "these do not: lem:lclipnonquasiconvex" in claims.judge(failed).findings[0].here


def test_words_and_tables() -> None:
    data = data_of("prop:prop1")
    assert claims.describe(data).startswith("A list of 2 claims of which 1 hold")
    assert len(claims.tables(data)[0].rows) == 2
    assert "Left out" not in claims.caption(data)
    assert "Left out of this quick run: x." in claims.caption({"checks": [], "left_out": ["x"]})
    claims.draw(data)


def test_what_a_quick_run_leaves_out_exists() -> None:
    assert set(claims.SLOW) < set(labels())
