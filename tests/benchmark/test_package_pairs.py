"""Features of package descriptions as a file of pairs."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.loops.runs import write_pairs
from benchmarks.package_pairs import reduced
from sklearn.decomposition import PCA

from batchcut.data import Pairs, Split, load


def made_up(count: int, seed: int) -> Pairs:
    x = np.random.default_rng(seed).standard_normal((2, count, 6)) * np.arange(1, 7) + 3
    u, v = x.astype(np.float32)
    return Pairs(name="made up", u=u, v=v)


def test_components_are_those_of_both_sides_of_the_training_rows(tmp_path: Path) -> None:
    train, test = made_up(40, 0), made_up(20, 1)
    write_pairs(reduced(Split(train, test), 3), tmp_path / "pairs.npz")
    found = load(f"pairs:{tmp_path / 'pairs.npz'}")
    components = PCA(3, svd_solver="full").fit(np.concatenate([train.u, train.v]))
    for part, own in ((found.train, train), (found.test, test)):
        assert isinstance(part, Pairs)
        for side, rows in ((part.u, own.u), (part.v, own.v)):
            assert side.dtype == np.float16
            assert np.abs(side) == pytest.approx(np.abs(components.transform(rows)), abs=0.02)
