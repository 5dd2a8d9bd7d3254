"""The parts of the benchmark that fine-tunes a pretrained model; see also test_texts.py."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.finetune import drawn, figures, mixed, summary, table, times_slower
from benchmarks.loops.text_sets import debian_pairs, fill, load, stanzas

from batchcut.evaluation import retrieval

PACKAGES = """Package: tea
Source: hot-drinks (1.2)
Version: 1.2

Package: coffee
Version: 2

Package: untold
"""
TRANSLATIONS = """Package: tea
Description-en: leaves in hot water
 A drink that is made of leaves,
 and of hot water.
 .
 This package has the leaves.

Package: coffee
Description-en: roasted seeds in hot water
 A drink that is made of the seeds of a plant.

Package: unknown
Description-en: in no list of packages
 A drink that nobody has ever heard of.

Package: untold
Description-en: nothing more to be said
 .
"""
TEA = ("leaves in hot water", "A drink that is made of leaves, and of hot water.")
COFFEE = ("roasted seeds in hot water", "A drink that is made of the seeds of a plant.")


def test_a_stanza_has_fields_of_several_lines() -> None:
    found = list(stanzas(TRANSLATIONS))
    assert [fields["Package"] for fields in found] == ["tea", "coffee", "unknown", "untold"]
    assert found[1]["Description-en"] == "roasted seeds in hot water\nA drink that is made of the seeds of a plant."


@pytest.mark.skipif(not Path("/usr/lib/apt/apt-helper").exists(), reason="reads lists by apt's own helper")
def test_short_and_long_descriptions_are_read_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mirror_dists_stable_main_binary-all_Packages").write_text(PACKAGES, encoding="utf-8")
    (tmp_path / "mirror_dists_stable_main_i18n_Translation-en").write_text(TRANSLATIONS, encoding="utf-8")
    found = load("debian", tmp_path)
    assert sorted(found.train + found.test) == [TEA, COFFEE]


@pytest.mark.skipif(not Path("/usr/lib/apt/apt-helper").exists(), reason="reads lists by apt's own helper")
def test_lists_that_change_from_week_to_week_are_left_out(tmp_path: Path) -> None:
    for name in ("stable", "stable-updates", "stable-security"):
        (tmp_path / f"mirror_dists_{name}_main_binary-all_Packages").write_text(PACKAGES, encoding="utf-8")
        text = TRANSLATIONS.replace("A drink", f"A drink, {name}," if name != "stable" else "A drink")
        (tmp_path / f"mirror_dists_{name}_main_i18n_Translation-en").write_text(text, encoding="utf-8")
    found = load("debian", tmp_path)
    assert sorted(found.train + found.test) == [TEA, COFFEE]


def test_rows_of_different_texts_are_named() -> None:
    rows = [{"data": data, "texts": texts} for data, texts in [("debian", "1"), ("functions", "1"), ("debian", "2")]]
    assert mixed(rows) == ["debian: runs on 2 versions of the texts"]
    assert mixed(rows[:2]) == []


def test_a_folder_without_lists_says_what_fetches_them(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"lists must hold files named \*_Packages\*, which `apt-get .* update`"
    ):
        load("debian", tmp_path)


def numbered(count: int) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Packages, three of each source, and their descriptions."""
    packages = [{"Package": f"p{i}", "Source": f"s{i // 3}"} for i in range(count)]
    descriptions = [
        {"Package": f"p{i}", "Description-en": f"package {i} of {i // 3}\nWhat is told at length of package {i}."}
        for i in range(count)
    ]
    return packages, descriptions


def test_packages_of_one_source_are_in_one_part_of_which_an_eighth_is_for_the_test() -> None:
    parts = debian_pairs(*numbered(3000))
    train, test = ({short.rpartition(" ")[2] for short, _ in part} for part in (parts.train, parts.test))
    assert (len(parts.train) + len(parts.test), train & test) == (3000, set())
    assert len(test) / 1000 == pytest.approx(0.125, abs=0.03)


def test_a_text_is_used_once_and_the_order_is_not_that_of_the_lists() -> None:
    packages, descriptions = numbered(300)
    parts = debian_pairs(packages, descriptions)
    assert debian_pairs(packages, [*descriptions, *descriptions]) == parts
    numbers = [int(short.split()[1]) for short, _ in parts.train]
    assert numbers != sorted(numbers)


def test_pairs_without_negatives_get_those_of_others() -> None:
    pairs = [(f"u{i}", f"v{i}") for i in range(4)]
    rows, filled = fill(pairs, [("u1", "v1", "v3", "v0")], 2, seed=0)
    assert (filled, rows[1]) == (3, ("u1", "v1", "v3", "v0"))
    assert [row[:2] for row in rows] == pairs
    for row in rows:
        assert len(set(row[1:])) == 3
        assert set(row[2:]) <= {"v0", "v1", "v2", "v3"}


def test_a_seed_draws_pairs_of_which_none_is_repeated() -> None:
    pairs = [(f"u{i}", f"v{i}") for i in range(20)]
    assert len(set(drawn(pairs, 15, seed=1))) == 15
    assert drawn(pairs, 15, seed=1) == drawn(pairs, 15, seed=1) != drawn(pairs, 15, seed=2)
    with pytest.raises(ValueError, match="pairs must be at most 20, as many as the set has; got 21"):
        drawn(pairs, 21, seed=1)


def slow_figures(u: np.ndarray, v: np.ndarray) -> dict[str, float]:
    """By looking for each partner in the sorted list, of which there is one where nothing is as similar."""
    ranks = []
    for a, b in ((u, v), (v, u)):
        for i in range(len(a)):
            order = sorted(range(len(b)), key=lambda j: -float(a[i] @ b[j]))
            ranks.append(1 + order.index(i))
    near = [rank for rank in ranks if rank <= 10]
    return {
        "top1": ranks.count(1) / len(ranks),
        "mrr10": sum(1 / rank for rank in near) / len(ranks),
        "ndcg10": sum(1 / math.log2(1 + rank) for rank in near) / len(ranks),
    }


@pytest.mark.parametrize("seed", range(3))
def test_figures_are_those_of_sorted_lists(seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((2, 60, 6))
    u, v = (rows[0] + rows[1] * noise for noise in (0.0, 0.7))
    u, v = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (u, v))
    assert figures(u.astype(np.float32), v.astype(np.float32)) == pytest.approx(slow_figures(u, v), abs=1e-9)
    assert slow_figures(u, v)["top1"] == pytest.approx(retrieval(u, v).top1)
    assert 0.1 < retrieval(u, v).top1 < 0.9


def test_copies_share_their_ranks() -> None:
    same = np.full((3, 4), 0.5, np.float32)
    assert figures(same, same) == pytest.approx({"top1": 0.0, "mrr10": 1 / 2, "ndcg10": 1 / math.log2(3)})


SETTINGS: dict[str, Any] = {"data": "debian", "pairs": 32, "tested": 10, "batch": 4, "epochs": 1, "rate": 0.001}


def run(
    method: str, seed: int, top1: float, *, equal: str = "steps", training: float = 5.0, mining: float = 0.0
) -> Any:
    scores = {"top1": top1, "mrr10": top1, "ndcg10": top1}
    kind = {"equal": equal, "method": method, "seed": seed, "steps": 8, "filled": 0, "jobs": 1}
    return SETTINGS | kind | {"training": training, "mining": mining} | ({} if equal == "time" else scores)


ROWS = [
    *(run("shuffled", seed, top1) for seed, top1 in enumerate((0.50, 0.54, 0.52))),
    *(run("planned", seed, top1) for seed, top1 in enumerate((0.51, 0.57, 0.54))),
    run("planned", 0, 0.48, equal="seconds"),
    run("shuffled", 0, 0.0, equal="time", training=10.0),
    run("planned", 0, 0.0, equal="time", training=11.0),
    run("1 mined", 0, 0.0, equal="time", training=16.0, mining=2.0),
]


def test_gains_are_those_over_the_same_seeds() -> None:
    shuffled, planned, faster = summary(ROWS)
    assert [row["method"] for row in (shuffled, planned, faster)] == ["shuffled", "planned", "planned"]
    assert [row["equal"] for row in (shuffled, planned, faster)] == ["steps", "steps", "seconds"]
    assert planned["top1"] == pytest.approx(
        {"mean": 0.54, "spread": 0.03, "gain": 0.02, "error": 0.01 / math.sqrt(3)}, abs=1e-12
    )
    assert shuffled["top1"]["gain"] == 0
    assert faster["top1"] == pytest.approx({"mean": 0.48, "spread": None, "gain": -0.02, "error": None})


def test_mining_is_taken_from_the_time_for_steps() -> None:
    settings = tuple(SETTINGS.values())
    assert times_slower(ROWS, settings, "planned") == pytest.approx(1.1)
    assert times_slower(ROWS, settings, "1 mined") == pytest.approx(2.0)
    assert times_slower(ROWS, settings, "3 mined") is None


def test_the_table_has_a_part_for_steps_and_one_for_seconds() -> None:
    lines = table(summary(ROWS)).splitlines()
    assert [line for line in lines if "equal" in line] == [
        "debian, at equal steps: 32 pairs, 1 epochs, batch 4, rate 0.001, 10 tested",
        "debian, at equal seconds: 32 pairs, 1 epochs, batch 4, rate 0.001, 10 tested",
    ]
    assert lines[3].split()[:12] == ["planned", "3", "8", "0", "5", "1.10", "54.00", "±", "3.00", "2.00", "±", "0.58"]
    assert lines[-1].split()[:8] == ["planned", "1", "8", "0", "5", "1.10", "48.00", "-2.00"]
