"""A verdict names its uncertainty: one seed is none, and chance may explain what it may explain."""

from pathlib import Path

from tests.report._folders import write_run

from batchcut.report import compare, finding, read_run


def text(folder: Path, gains: dict[str, list[float]]) -> str:
    """Of each method, a run a gain."""
    runs = [
        read_run(write_run(folder / f"{method}-{seed}", method=method, seed=seed, gain=gain))
        for method, own in gains.items()
        for seed, gain in enumerate(own)
    ]
    return finding(compare(runs))


def test_one_seed_is_no_verdict(tmp_path: Path) -> None:
    said = text(tmp_path, {"shuffle": [0.0], "cut": [0.3]})
    assert said.startswith(
        "Cut ends 30.0 points above shuffled batches (90.0 % against 60.0 %) and passes their result after "
    )
    assert said.endswith("But one seed is no verdict: nothing says how much runs differ by chance.")
    assert "one seed is no verdict" in text(tmp_path / "alone", {"cut": [0.3]})


def test_a_difference_that_chance_may_explain_is_called_that(tmp_path: Path) -> None:
    said = text(tmp_path, {"shuffle": [0.0, 0.02, 0.04], "cut": [0.05, 0.0, 0.05]})
    assert said.startswith("Cut ends 1.3 ± 2.0 points above shuffled batches (64.3 % against 63.0 %)")
    assert said.endswith(
        "That is no verdict: the 95 % interval is ± 8.7, which holds 0, so that chance may explain it."
    )


def test_a_clear_difference_has_its_interval(tmp_path: Path) -> None:
    said = text(tmp_path, {"shuffle": [0.0, 0.02, 0.04], "cut": [0.1, 0.121, 0.14]})
    assert "no verdict" not in said
    assert said.startswith("Cut ends 10.0 ± 0.0 points above shuffled batches ")
    assert said.endswith("The ± is the standard error over 3 seeds, in pairs; the 95 % interval is ± 0.1, clear of 0.")
    worse = text(tmp_path / "worse", {"shuffle": [0.1, 0.121, 0.14], "cut": [0.0, 0.02, 0.04]})
    assert worse.startswith("No plan beats shuffled batches here: Cut ends 10.0 ± 0.0 points below them ")


def test_methods_that_are_not_above_are_named_with_their_gain(tmp_path: Path) -> None:
    said = text(tmp_path, {"shuffle": [0.05, 0.06], "cut": [0.1, 0.12], "ordered": [0.03, 0.05]})
    assert "Not above shuffled batches: Ordered (−1.5 ± 0.5)." in said


def test_without_shuffled_runs_the_first_two_are_compared(tmp_path: Path) -> None:
    said = text(tmp_path, {"spectral": [0.0, 0.02], "cut": [0.1, 0.12]})
    assert said.startswith("Cut is 10.0 ± 0.0 points above Spectral, the next (")
    assert "one seed is no verdict" in text(tmp_path / "few", {"spectral": [0.0], "cut": [0.1]})
