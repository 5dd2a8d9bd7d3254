"""What benchmarks with two small towers compute by themselves, at tiny sizes."""

import argparse
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import background, best_plans, gain, tables
from benchmarks.loops import towers
from torch import Tensor

from batchcut.losses import Background, contrastive_loss
from batchcut.selection import GradientTable, gradient_table

TAU = towers.TAU


def _rows(count: int, seed: int = 0, width: int = 6) -> list[Tensor]:
    rng = torch.Generator().manual_seed(seed)
    u = torch.randn(count, width, generator=rng)
    v = u + 0.7 * torch.randn(count, width, generator=rng)
    return [torch.nn.functional.normalize(side, dim=1) for side in (u, v)]


@pytest.fixture
def data() -> towers.Split:
    return towers.Split(_rows(96), _rows(40, seed=1))


@pytest.fixture
def table() -> GradientTable:
    return gradient_table(*_rows(12), temperature=0.2, roles="both")


def _loss(units: list[Tensor], batches: Tensor, far: background.Far | None) -> Tensor:
    """The sum over anchors of both sides, by the library."""
    total = torch.zeros(())
    for place, batch in enumerate(batches):
        beside = None
        if far is not None:
            live = ~torch.isin(far.samples[place], batch)
            weight = far.extra.weight or far.population / far.samples.shape[1]
            u, v = (side[place] for side in far.rows)
            beside = Background(u=u, v=v, share=far.extra.share, largest_weight=weight, live=live)
        rows = [side[batch] for side in units]
        total = total + 2 * len(batch) * contrastive_loss(*rows, temperature=TAU, background=beside)
    return total


@pytest.mark.parametrize("extra", [None, towers.Extra(rows="old", count=5)])
def test_both_parts_of_the_gradient_add_up_to_that_of_the_loss(extra: towers.Extra | None) -> None:
    units = _rows(24)
    batches, kinds = torch.randperm(24).reshape(4, 6), torch.arange(24) % 3
    far = None
    if extra is not None:
        samples = torch.randint(24, (4, 5))
        far = background.Far(samples, [side[samples] for side in _rows(24, seed=3)], extra, 24)
    parts, mass = background.pushes(units, batches, kinds, far)
    leaves = [side.clone().requires_grad_() for side in units]
    expected = torch.autograd.grad(_loss(leaves, batches, far), leaves)
    for k in range(2):
        found = parts[0][k] + parts[1][k]
        found = found - (found * units[k]).sum(dim=1, keepdim=True) * units[k]  # the loss normalises its rows
        torch.testing.assert_close(found, expected[k], atol=2e-4, rtol=1e-3)
    assert 0 < mass[0] < mass.sum() < 1


def test_of_one_kind_no_negative_is_of_another() -> None:
    units, batches = _rows(24), torch.arange(24).reshape(4, 6)
    parts, mass = background.pushes(units, batches, torch.zeros(24, dtype=torch.long), None)
    assert mass[1] == 0 < mass[0]
    assert all(bool((side == 0).all()) for side in parts[1])


def test_the_loss_with_gradient_is_that_of_the_library_where_rows_get_none() -> None:
    (u, v), (far_u, far_v) = _rows(8), _rows(5, seed=2)
    live = torch.tensor([True, True, False, True, True])
    beside = Background(u=far_u, v=far_v, share=0.3, largest_weight=4, live=live)
    expected = contrastive_loss(u, v, temperature=TAU, background=beside)
    found = towers.loss_with_gradient(u, v, far_u, far_v, live, share=0.3, weight=4)
    twice = towers.loss_with_gradient(u, v, far_u, far_v, live, share=0.3, weight=4, push=2)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(twice, expected)


def test_errors_are_told_apart_by_kind() -> None:
    u = torch.eye(4)
    v = u[[0, 2, 1, 3]]  # rows 1 and 2 find each other's partner
    assert background.errors([u, v], np.array([0, 1, 1, 2])) == {"wrong_in_kind": 0.5, "wrong_kind": 0.0}
    assert background.errors([u, v], np.array([0, 1, 2, 2])) == {"wrong_in_kind": 0.0, "wrong_kind": 0.5}


def test_all_of_the_background_is_measured_and_drawn(data: towers.Split, tmp_path: Path) -> None:
    options = argparse.Namespace(
        seeds=[1], kinds=[3], samples=64, looked_at=[2], batch_size=8, epochs=2, only_stored=False
    )
    facts = background.measure(data, options, tmp_path)
    assert len(facts["runs"]) == len(background.RUNS) + len(background.ONCE)
    for run in facts["runs"]:
        last = run["epochs"][-1]
        assert last["top1"] + last["kinds"]["3"]["wrong_in_kind"] + last["kinds"]["3"]["wrong_kind"] == pytest.approx(1)
        assert run["epochs"][0] == facts["runs"][0]["epochs"][0]  # the first epoch is shared
    whole = next(row for row in facts["gradients"] if row["plan"] == "full batch")
    assert whole["kept_in_kind"] + whole["kept_other"] == pytest.approx(1)
    assert len(list(tmp_path.glob("*.pt"))) == len(facts["runs"])
    background.draw(facts, tmp_path / "x.svg", kinds=3)
    assert (tmp_path / "x.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_the_best_partition_is_that_of_all(table: GradientTable) -> None:
    best = best_plans.best_partition(table, 4)
    assert np.array_equal(np.sort(best.ravel()), np.arange(12))
    kept = []
    for first in itertools.combinations(range(1, 12), 3):
        left = [sample for sample in range(1, 12) if sample not in first]
        for second in itertools.combinations(left[1:], 3):
            rest = [sample for sample in left[1:] if sample not in second]
            kept.append(table.kept(np.array([[0, *first], [left[0], *second], rest])))
    assert table.kept(best) == pytest.approx(max(kept))


def test_swaps_gain_what_they_say_and_never_lose(table: GradientTable) -> None:
    masses = np.exp(table.scores - table.scores.max(axis=2, keepdims=True))
    cells = np.stack([masses, masses * table.moved])
    order = np.random.default_rng(0).permutation(12)
    before = table.kept(order.reshape(3, 4))
    columns = np.ascontiguousarray(cells.swapaxes(2, 3))
    gains = best_plans.swap_gains(cells, columns, best_plans.batch_sums(cells, order, 4), order, 4, 5)
    for place in (0, 1, 2, 3, 8, 9, 10, 11):
        changed = order.copy()
        changed[[5, place]] = changed[[place, 5]]
        assert gains[place] == pytest.approx(table.kept(changed.reshape(3, 4)) - before, abs=1e-9)
    after = best_plans.swapped(table, order.reshape(3, 4), sweeps=10)
    assert before < table.kept(after) <= table.kept(best_plans.best_partition(table, 4)) + 1e-9
    assert np.array_equal(np.sort(after.ravel()), np.arange(12))


def test_plans_are_compared_and_trained_by(data: towers.Split) -> None:
    u, v = (side.numpy() for side in data.train)
    for row in best_plans.small_sets(u, v, cases=2, samples=8, seed=0):
        assert row["kept"]["best"] >= max(row["kept"].values()) - 1e-9
    row = best_plans.larger_set(u, v, samples=32, batch_size=8, sweeps=3, seed=0)
    assert row["kept"]["swapped"] >= row["kept"]["Cut"] - 1e-9
    plans = {"swapped": best_plans.by_swaps(sweeps=1, margin=True)}
    found = best_plans.trained(data, plans, seed=0, batch_size=10, epochs=2)  # 96 is no multiple of 10
    assert [row["batches"] for row in found] == ["swapped"]


def test_the_full_batch_has_an_effective_size_of_n(data: towers.Split) -> None:
    untrained = towers.Towers((6, 6), seed=0)
    assert gain.effective_size(untrained, data.train, np.arange(96)[None], None, 0) == pytest.approx(96)
    halves = np.random.default_rng(5).permutation(96).reshape(6, 16)
    assert gain.effective_size(untrained, data.train, halves, None, 0) == pytest.approx(16, rel=0.5)


def test_gains_are_taken_by_seed_and_drawn(data: towers.Split, tmp_path: Path) -> None:
    how: dict[str, Any] = {"batch_size": 8, "seed": 0, "epochs": 4, "samples": 64}
    rows: list[dict[str, Any]] = [{"data": "pairs"} | gain.run(data, method, **how) for method in ("Shuffle", "Cut")]
    (found,) = gain.points(rows)
    assert found["gain"] == pytest.approx(rows[1]["top1"] - rows[0]["top1"])
    assert found["ratio"] == pytest.approx(rows[1]["size"] / 8)
    gain.draw(rows, tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_tables_of_the_background_show_runs_and_gradients() -> None:
    def run(plan: str, extra: str, top1: float) -> dict[str, Any]:
        kinds = {"3": {"wrong_kind": 0.2, "wrong_in_kind": 0.8 - top1}}
        return {
            "plan": plan,
            "extra": extra,
            "seed": 1,
            "epochs": [{"top1": 0.0, "kinds": {}}, {"top1": top1, "kinds": kinds}],
        }

    runs = [run("Cut", "old", 0.5), run("Cut", "nothing", 0.48), run("shuffled", "nothing", 0.4)]
    lines = tables.background_runs_table({"pairs": {"runs": runs}}).splitlines()
    assert lines[2:] == [
        "| pairs | shuffled | none | 1 | 40.0 | – | 20.0 | 40.0 |",
        "| pairs | Cut | none | 1 | 48.0 | – | 20.0 | 32.0 |",
        "| pairs | Cut | old, 15 % of the mass | 1 | 50.0 | +2.0 | 20.0 | 30.0 |",
    ]
    row = {"of": "Cut", "epoch": 5, "kinds": 3, "plan": "full batch", "extra": "nothing"}
    row |= {"mass_in_kind": 0.1, "mass_other": 0.2, "kept_in_kind": 0.25, "kept_other": 0.75}
    lines = tables.background_gradients_table({"pairs": {"gradients": [row, row | {"epoch": 2}]}}).splitlines()
    assert lines[2:] == ["| full batch | none | 0.100 | 0.200 | 0.250 | 0.750 | 1 | 1 | 1 |"]


def test_the_table_of_best_plans_shows_sizes_and_training() -> None:
    sizes = {"shuffled": 4.0, "Cut": 8.0, "swapped, margin": 9.0, "swapped": 10.0}
    facts = {"samples": 1024, "small": [{"size": {"shuffled": 3.0, "Cut": 6.0, "best": 7.0}}]}
    facts |= {"larger": [{"samples": 256, "batch_size": 32, "size": sizes}]}
    runs = [{"batches": name, "top1": 0.2} for name in sizes]
    lines = tables.best_plans_table(facts | {"runs": runs}).splitlines()
    assert lines[2:] == [
        "| 1 sets of 16 neighbours, B = 4: median size | 3.0 | 6.0 | – | 7.0 (the best) |",
        "| N = 256, B = 32: size | 4 | 8 | 9 | 10 |",
        "| top-1 after training on 1,024, seeds: 1 | 20.0 % | 20.0 % | 20.0 % | 20.0 % |",
    ]
    assert len(tables.best_plans_table(facts | {"runs": []}).splitlines()) == 4
