"""Seeds belong together; what is compared is computed again here, slowly."""

import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest
from tests.report._folders import write_lines, write_run

from batchcut.report import compare, finding, read_run
from batchcut.report._gain import gain_over


def runs_in(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/config.toml"))


def test_runs_that_differ_in_their_seed_alone_are_one_group(runs: Path) -> None:
    comparison = compare([read_run(path) for path in runs_in(runs)])
    assert [(group.label, len(group.runs)) for group in comparison.groups] == [("Shuffle", 2), ("Cut", 2)]
    shuffled, cut = comparison.groups
    assert [comparison.baseline(group) for group in comparison.groups] == [shuffled, shuffled]
    assert cut.finals == pytest.approx([0.65, 0.66])
    assert cut.top1 == pytest.approx(0.655)
    assert cut.spread == pytest.approx(statistics.stdev([0.65, 0.66]))
    assert cut.seconds("planning") == pytest.approx(1.5)


def test_curves_are_means_with_the_lowest_and_highest_seed(runs: Path) -> None:
    cut = compare([read_run(path) for path in runs_in(runs)]).groups[1]
    curve = cut.accuracy()
    np.testing.assert_array_equal(curve.steps, [12, 24, 36])
    np.testing.assert_allclose(curve.mean, [0.255, 0.455, 0.655])
    np.testing.assert_allclose(curve.low, [0.25, 0.45, 0.65])
    np.testing.assert_allclose(curve.high, [0.26, 0.46, 0.66])
    loss = cut.loss()
    assert loss.steps[-1] == 36
    losses = [x for run in cut.runs for event in run.events("losses") for x in event["losses"]]
    assert loss.mean.mean() == pytest.approx(statistics.fmean(losses))


def test_steps_to_the_shuffled_result_count_only_where_it_stays(tmp_path: Path) -> None:
    write_run(tmp_path / "shuffle", method="shuffle")
    folder = write_run(tmp_path / "cut")
    for scores, wanted in (
        ([0.7, 0.5, 0.65], 36),
        ([0.7, 0.65, 0.6], 12),
        ([0.1, 0.65, 0.7], 24),
        ([0.7, 0.7, 0.5], None),
    ):
        events = [{"event": "evaluation", "step": 12 * (at + 1), "top1": s} for at, s in enumerate(scores)]
        write_lines(folder / "metrics.jsonl", events)
        comparison = compare([read_run(tmp_path / name) for name in ("shuffle", "cut")])
        assert comparison.steps_to_baseline(comparison.groups[1]) == wanted


def test_the_gain_is_over_the_shuffled_runs_that_are_finished(tmp_path: Path) -> None:
    for method, last in {"shuffle": {0: 0.5, 1: 0.52}, "cut": {0: 0.55, 1: 0.56}}.items():
        for seed, top1 in last.items():
            folder = write_run(tmp_path / f"{method}-{seed}", method=method, seed=seed)
            write_lines(folder / "metrics.jsonl", [{"event": "evaluation", "step": 12, "top1": top1}])
    comparison = compare([read_run(path) for path in runs_in(tmp_path)])
    shuffled, cut = comparison.groups
    assert comparison.gain(cut) == gain_over({0: 0.55, 1: 0.56}, {0: 0.5, 1: 0.52})
    assert comparison.gain(shuffled) is None
    for seed in (0, 1):
        (tmp_path / f"shuffle-{seed}" / "result.json").unlink()
    unfinished = compare([read_run(path) for path in runs_in(tmp_path)])
    assert unfinished.gain(unfinished.groups[1]) is None


def test_each_group_is_compared_with_shuffled_batches_of_its_own_settings(tmp_path: Path) -> None:
    for size in (8, 16):
        for method in ("shuffle", "cut"):
            folder = write_run(tmp_path / f"{method}-{size}", method=method, gain=size / 1000 * (method == "cut"))
            config = (folder / "config.toml").read_text()
            (folder / "config.toml").write_text(config.replace("batch_size = 8", f"batch_size = {size}"))
    runs = {path.name: read_run(path) for path in runs_in(tmp_path)}
    comparison = compare(list(runs.values()))
    for group in comparison.groups:
        base = comparison.baseline(group)
        assert base is not None
        assert base.runs[0].path.name == f"shuffle-{group.runs[0].batch_size}"
    assert "Cut, batch_size 16 ends 1.6 points above shuffled batches (61.6 % against 60.0 %)" in finding(comparison)
    assert "Not the batches alone differ" not in finding(comparison)
    mixed = compare([runs["shuffle-8"], runs["cut-16"]])
    assert mixed.baseline(mixed.groups[1]) is mixed.groups[0]
    assert finding(mixed).endswith("Not the batches alone differ: batch_size.")
    several = compare(
        [runs["shuffle-8"], runs["shuffle-16"], read_run(write_run(tmp_path / "c", settings="width = 3"))]
    )
    assert several.baseline(several.groups[2]) is None
    assert several.gain(several.groups[2]) is None


@pytest.mark.parametrize(
    ("method", "setting", "told"), [("cut", "true", True), ("cut", "false", False), ("ordered", "true", False)]
)
def test_a_background_beside_planned_batches_is_named(method: str, setting: str, told: bool, tmp_path: Path) -> None:
    for one in ("shuffle", method):
        folder = write_run(tmp_path / one, method=one, gain=0.1 * (one == method))
        config = (folder / "config.toml").read_text()
        (folder / "config.toml").write_text(f"selection.background = {setting}\n{config}")
    comparison = compare([read_run(path) for path in runs_in(tmp_path)])
    assert ("(selection.background)" in finding(comparison)) == told


def test_without_shuffled_runs_there_is_nothing_to_reach(tmp_path: Path) -> None:
    comparison = compare([read_run(write_run(tmp_path / "cut"))])
    assert comparison.baseline(comparison.groups[0]) is None
    assert comparison.steps_to_baseline(comparison.groups[0]) is None
    assert math.isnan(comparison.groups[0].spread)


def test_groups_of_one_method_are_labelled_by_what_differs(tmp_path: Path) -> None:
    write_run(tmp_path / "a", settings="note = 'short'")
    write_run(tmp_path / "b", settings="note = 'long'")
    write_run(tmp_path / "c", method="shuffle", settings="note = 'long'")
    comparison = compare([read_run(tmp_path / name) for name in "abc"])
    assert [group.label for group in comparison.groups] == ["Shuffle", "Cut, note long", "Cut, note short"]


def test_runs_without_scores_have_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("seed = 3\n")
    (group,) = compare([read_run(tmp_path)]).groups
    assert math.isnan(group.top1)
    assert len(group.accuracy().steps) == 0


def test_losses_as_planned_are_beside_those_of_shuffled_batches_by_the_same_embeddings(runs: Path) -> None:
    shuffled, cut = compare([read_run(path) for path in runs_in(runs)]).groups
    lines = [json.loads(line) for run in cut.runs for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    plans = [line for line in lines if line["event"] == "plan"]
    wanted = [statistics.fmean(plan[name] for plan in plans) for name in ("mean_loss", "shuffled_loss")]
    assert cut.planned_losses == pytest.approx(wanted)
    assert wanted[0] > wanted[1]
    assert shuffled.planned_losses is None


def test_runs_on_other_data_or_with_another_test_are_another_task(tmp_path: Path) -> None:
    for name, settings in (("a", {}), ("b", {"data": "pairs:/data/long/b.npz"}), ("c", {"test": 50})):
        for method in ("shuffle", "cut"):
            folder = write_run(tmp_path / f"{name}-{method}", method=method)
            text = (folder / "config.toml").read_text()
            text = text.replace("'digits'", repr(settings.get("data", "digits")))
            (folder / "config.toml").write_text(text.replace("[data]", f"[data]\ntest = {settings.get('test', 10)}"))
    comparison = compare([read_run(path) for path in runs_in(tmp_path)])
    assert [[group.method for group in part.groups] for part in comparison.tasks] == [["Shuffle", "Cut"]] * 3
    assert all(part.baseline(group) is part.groups[0] for part in comparison.tasks for group in part.groups)
    assert len({part.task for part in comparison.tasks} | {""}) == 4
    assert len({group.label for group in comparison.groups}) == 6
    assert [group.place for group in comparison.groups] == list(range(6))


def test_the_effective_size_of_shuffled_epochs_is_the_batch_size(tmp_path: Path) -> None:
    shuffled, cut = write_run(tmp_path / "a", method="shuffle"), write_run(tmp_path / "b")
    plans = [{"event": "plan", "epoch": epoch, "method": "Shuffle"} for epoch in range(3)]
    write_lines(shuffled / "metrics.jsonl", plans)
    sizes = [{"size": 40.0}, {"size": None}, {"size": 60.0}]
    planned = [{"event": "plan", "epoch": k + 1, "method": "Cut", "effective_size": s} for k, s in enumerate(sizes)]
    write_lines(cut / "metrics.jsonl", [*plans[:1], *planned, {"event": "plan", "epoch": 4, "method": "Cut"}])
    of_shuffled, of_cut = compare([read_run(path) for path in (shuffled, cut)]).groups
    size = of_shuffled.runs[0].batch_size
    np.testing.assert_array_equal(of_shuffled.effective_sizes().steps, [1, 2, 3])
    np.testing.assert_array_equal(of_shuffled.effective_sizes().mean, [size] * 3)
    np.testing.assert_array_equal(of_cut.effective_sizes().steps, [1, 2, 4])
    np.testing.assert_array_equal(of_cut.effective_sizes().mean, [size, 40, 60])
    assert (of_shuffled.effective_size, of_cut.effective_size) == (size, 60)


def test_runs_of_before_have_no_effective_sizes(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "cut")
    write_lines(folder / "metrics.jsonl", [{"event": "plan", "epoch": 1, "method": "Cut"}])
    (group,) = compare([read_run(folder)]).groups
    assert len(group.effective_sizes().steps) == 0
    assert math.isnan(group.effective_size)


def test_only_finished_runs_are_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "a", seed=0)
    (write_run(tmp_path / "b", seed=1, epochs=3, gain=-0.5) / "result.json").unlink()
    (group,) = compare([read_run(tmp_path / name) for name in "ab"]).groups
    assert group.finals == pytest.approx([0.6])
    assert len(group.runs) == 2


def test_curves_of_a_run_and_of_its_beginning_have_common_steps(tmp_path: Path) -> None:
    write_run(tmp_path / "a", seed=0, epochs=9)
    folder = write_run(tmp_path / "b", seed=1, epochs=9)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[: len(lines) // 2]))
    (group,) = compare([read_run(tmp_path / name) for name in "ab"]).groups
    assert len(group.loss().steps) > 10
