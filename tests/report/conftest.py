"""Folders of runs that tests share."""

from pathlib import Path

import pytest
from tests.report._folders import write_run


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds each of shuffled and of cut batches."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder / f"shuffle-{seed}", method="shuffle", seed=seed)
        write_run(folder / f"cut-{seed}", method="cut", seed=seed, gain=0.05)
    return folder
