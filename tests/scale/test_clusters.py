"""The real engines: two workers, one of which is killed in the middle; nothing is lost, and the plan is the same."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("_clusters.py")
LONGEST = 1200
"""Seconds, for a machine at work on much else; on an idle one it is a small part of them."""


@pytest.mark.alone
@pytest.mark.parametrize(("engine", "library"), [("loky", "joblib"), ("dask", "distributed"), ("ray", "ray")])
def test_a_worker_that_is_killed_costs_nothing_but_time(tmp_path: Path, engine: str, library: str) -> None:
    for needed in ("psutil", library):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: the extra clusters brings it")
    paths = os.pathsep.join([str(SCRIPT.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    alone = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), engine, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, env=alone, timeout=LONGEST)
    assert result.returncode == 0, result.stderr
    assert "killed 1, cells 15, same True" in result.stdout
