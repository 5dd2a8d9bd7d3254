"""How many samples would rather be elsewhere, against a slow version."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import batchcut as bc
from batchcut.selection import _restless
from batchcut.selection._inputs import unit_pairs
from batchcut.selection._parallel import ALONE, workers
from batchcut.selection._restless import restless_share
from batchcut.selection._score import Weighting

MakePairs = Callable[..., tuple[Any, Any]]


def slow_share(u: Any, v: Any, pools: list[Any], weights: Any) -> float:
    """Asks every sample about the nearest batch of another pool."""
    rows = [(k, row[row >= 0]) for k, pool in enumerate(pools) for row in pool]
    total = np.array([(u + v)[row].sum(axis=0) for _, row in rows])
    centres, restless = total / np.linalg.norm(total, axis=1, keepdims=True), []
    for pool, row in rows:
        for i in row:
            foreign = [b for b in range(len(rows)) if rows[b][0] != pool]
            there = rows[max(foreign, key=lambda b: centres[b] @ (u + v)[i])][1]
            restless.append(weights[i, there].sum() > weights[i, row].sum())
    return float(np.mean(restless))


@pytest.mark.parametrize("margin", [None, 0.2])
@pytest.mark.parametrize("short", [False, True])
def test_share_is_that_of_the_slow_version(make_pairs: MakePairs, margin: float | None, short: bool) -> None:
    u, v = make_pairs(240, 6, clusters=8)
    batches = np.random.default_rng(0).permutation(240).reshape(24, 10)
    if short:
        batches[5, -1] = -1
    pools = np.split(batches, [8, 12])
    pairs = unit_pairs(u, v, normalize=True)
    share = restless_share(pairs, pools, Weighting.of(pairs, 10, 0.1, margin), np.random.default_rng(0), ALONE)
    expected = slow_share(u, v, pools, bc.pair_weights(u, v, 10, 0.1, margin=margin))
    assert 0 < expected < 1
    assert share == pytest.approx(expected, abs=1e-6)


def test_some_samples_stand_for_all(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = unit_pairs(*make_pairs(2000, 6), normalize=True)
    pools, weighting = np.split(np.arange(2000).reshape(100, 20), 5), Weighting.of(pairs, 20, 0.1, None)
    shares = []
    for asked in (2000, 500):
        monkeypatch.setattr(_restless, "_ASKED", asked)
        with workers(2) as crew:
            shares.append(restless_share(pairs, pools, weighting, np.random.default_rng(0), crew))
    assert shares[1] == pytest.approx(shares[0], abs=0.08)


def test_nobody_is_restless_where_there_is_one_pool(make_pairs: MakePairs) -> None:
    pairs = unit_pairs(*make_pairs(40), normalize=True)
    weighting = Weighting.of(pairs, 4, 0.1, None)
    assert restless_share(pairs, [np.arange(40).reshape(10, 4)], weighting, np.random.default_rng(0), ALONE) == 0
