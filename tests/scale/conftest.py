"""Small sets in files, and cells and blocks small enough for them."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from batchcut.scale import PairFiles, open_pair_files

Array = npt.NDArray[Any]
WritePairs = Callable[..., PairFiles]


def make_pairs(count: int, *, dim: int = 8, clusters: int = 12, seed: int = 0) -> tuple[Array, Array]:
    """Unit rows around a few centres, in float16."""
    rng = np.random.default_rng(seed)
    u = 2 * rng.standard_normal((clusters, dim))[rng.integers(0, clusters, count)] + rng.standard_normal((count, dim))
    v = u + 0.5 * rng.standard_normal(u.shape)
    u, v = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (u, v))
    return u.astype(np.float16), v.astype(np.float16)


@pytest.fixture
def write_pairs(tmp_path: Path) -> WritePairs:
    """Writes pairs as `.npy` shards of the sizes given, and opens them."""

    def write(*sizes: int, groups: Array | None = None, **settings: Any) -> PairFiles:
        folder = tmp_path / "files"
        folder.mkdir(exist_ok=True)
        names = ("u", "v") if groups is None else ("u", "v", "groups")
        sides = (*make_pairs(sum(sizes), **settings), groups)
        paths: dict[str, list[Path]] = {name: [] for name in names}
        for k, stop in enumerate(np.cumsum(sizes)):
            for name, values in zip(names, sides, strict=False):
                assert values is not None
                np.save(folder / f"{name}{k}.npy", values[stop - sizes[k] : stop])
                paths[name].append(folder / f"{name}{k}.npy")
        return open_pair_files(paths["u"], paths["v"], groups=paths.get("groups"))

    return write


@pytest.fixture
def small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of at most 128 samples, blocks of at most 100."""
    monkeypatch.setattr("batchcut.scale._memory.MOST_IN_CELL", 128)
    monkeypatch.setattr("batchcut.scale._memory.MOST_IN_BLOCK", 100)


@pytest.fixture
def files_left_open() -> Iterator[None]:
    """For tests that read by webdataset, which leaves files open: they are closed here, and not in the next test."""
    yield
    gc.collect()
