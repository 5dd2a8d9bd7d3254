"""The real engines: two workers, one of which is killed in the middle; nothing is lost, and the plan is the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("_clusters.py")


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "library"), [("loky", "joblib"), ("dask", "distributed")])
def test_a_worker_that_is_killed_costs_nothing_but_time(tmp_path: Path, engine: str, library: str) -> None:
    pytest.importorskip("psutil")
    if subprocess.run([sys.executable, "-c", f"import {library}"], capture_output=True).returncode:
        pytest.skip(f"{library} is not installed: the extra clusters brings it")
    paths = os.pathsep.join([str(SCRIPT.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    alone = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, SCRIPT, engine, tmp_path], capture_output=True, text=True, env=alone)
    assert result.returncode == 0, result.stderr
    assert "killed 1, cells 15, same True" in result.stdout
