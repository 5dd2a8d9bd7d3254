import math

import numpy as np
import pytest

from batchcut.selection._subsets import all_batches, draw_batches
from batchcut.selection.groups import read_groups


def test_all_batches() -> None:
    rows = all_batches(6, 3)
    assert rows.shape == (math.comb(6, 3), 3)
    assert len(np.unique(rows, axis=0)) == 20
    with pytest.raises(
        ValueError, match=r"C\(N, B\) must be at most 5000000 to go through all batches; got C\(99, 9\)"
    ):
        all_batches(99, 9)


def test_groups_may_leave_fewer_batches_than_were_asked_for() -> None:
    rng = np.random.default_rng(0)
    drawn = draw_batches(np.arange(4), 2, 6, rng, read_groups([0, 0, 1, 1], 4))
    assert drawn.shape == (6, 2)
    assert ((drawn < 2).sum(axis=1) == 1).all()
