"""Uses and pairs of one class, counted again one by one."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tests.report._folders import BATCH, SAMPLES, embeddings, write_run

from batchcut.report import compare, read_run
from batchcut.report._coverage import chance_of_same_class, coverages
from batchcut.report._explorer import shown_plans
from batchcut.report._samples import Samples
from batchcut.selection import Cut


def test_counts_against_the_slow_way(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "cut"))
    labels = np.random.default_rng(1).integers(0, 4, SAMPLES)
    comparison = compare([run])
    (found,) = coverages(comparison, Samples(labels=labels), shown_plans(comparison))
    same, pairs = [], 0
    for plan in run.plans():
        alike = [labels[a] == labels[b] for batch in plan for a, b in combinations(batch.tolist(), 2)]
        same.append(np.mean(alike))
        pairs += len(alike)
    np.testing.assert_allclose(found.by_epoch[1], same)
    np.testing.assert_array_equal(found.by_epoch[0], [2, 3])
    assert (found.plans, found.coverage, found.unused, found.fewest, found.most) == (2, 1.0, 0.0, 2, 2)
    assert found.same_class == pytest.approx(np.mean(same))
    assert 0 <= found.suspected["easiest"] < found.suspected["hardest"] <= 1


@pytest.mark.filterwarnings("ignore:2 of the groups have more members")
def test_pairs_within_the_margin_and_of_one_group_are_shares(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "cut")
    u, v = embeddings(SAMPLES, np.random.default_rng(0))
    groups = np.arange(SAMPLES) // (SAMPLES // 2)
    plan = Cut(margin=0.3)(u, v, batch_size=BATCH, seed=0, epoch=1, groups=groups)
    assert plan.margin_pairs > 0
    for epoch in (1, 2):
        replace(plan, epoch=epoch).save(folder / "plans" / f"epoch-{epoch:04d}.npz")
    comparison = compare([read_run(folder)])
    (found,) = coverages(comparison, Samples(), [])
    pairs = [groups[a] == groups[b] for batch in plan for a, b in combinations(batch.tolist(), 2)]
    assert found.same_group == pytest.approx(np.mean(pairs))
    assert found.within_margin == pytest.approx(plan.margin_pairs / len(pairs))


def test_chance_is_the_share_of_all_pairs() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2])
    slow = np.mean([a == b for a, b in combinations(labels.tolist(), 2)])
    assert chance_of_same_class(labels) == pytest.approx(slow)
    assert np.isnan(chance_of_same_class(None))


def test_shuffled_runs_have_no_plans(tmp_path: Path) -> None:
    comparison = compare([read_run(write_run(tmp_path / "shuffle", method="shuffle"))])
    assert coverages(comparison, Samples(), []) == []
