import pytest

from batchcut.paper import ITEMS, Finding, Settings, Verdict


def finding(*, agrees: bool) -> Finding:
    return Finding(paper="all equal", here="two differ", agrees=agrees, why="of rounding")


@pytest.mark.parametrize(
    ("agreeing", "word"),
    [((True,), "agrees"), ((True, False), "agrees in part"), ((False, False), "does not agree")],
)
def test_word_follows_from_the_findings(agreeing: tuple[bool, ...], word: str) -> None:
    assert Verdict(findings=tuple(finding(agrees=agrees) for agrees in agreeing)).word == word


def test_line_has_the_paper_the_result_and_the_reason_where_they_differ() -> None:
    line = Verdict(findings=(finding(agrees=True), finding(agrees=False))).line
    assert line == (
        "agrees in part. yes: paper: all equal — here: two differ; "
        "NO: paper: all equal — here: two differ (because of rounding)"
    )


def test_verdict_needs_a_finding() -> None:
    with pytest.raises(ValueError, match="findings must hold at least one finding; got none"):
        Verdict(findings=())


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="scale must be 'full' or 'quick'; got 'huge'"):
        Settings(scale="huge")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed must be at least 0; got -1"):
        Settings(seed=-1)


def test_labels_are_those_of_the_paper_and_folders_differ() -> None:
    labels = [item.label for item in ITEMS]
    assert len(set(labels)) == len({item.folder for item in ITEMS}) == len(ITEMS)
    assert {
        "fig:ful_mini_loss_compare",
        "fig:concept",
        "fig:toy_example",
        "fig:sim_theorem_base_N_8",
        "fig:sim_theorem_base_N_4",
        "fig:sim_theorem_base_N_16",
        "fig:sim_theorem_unproven",
        "theory",
    } <= set(labels)
    assert all(":" not in item.folder for item in ITEMS)


def test_all_items_fit_the_budget() -> None:
    assert sum(item.minutes[0] for item in ITEMS) < 90
    assert sum(item.minutes[1] for item in ITEMS) < 5
