"""The real engines: a worker that is killed, has no room on its disk, or no batchcut; nothing is lost but time."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from tests._launch import ended

SCRIPT = Path(__file__).with_name("_clusters.py")
LONGEST = 800
"""Seconds, for a machine at work on much else; on an idle one it is a small part of them."""
LIBRARIES = {"loky": "joblib", "dask": "distributed", "bare": "distributed", "ray": "ray"}


def said(engine: str, trouble: str, folder: Path) -> list[str]:
    """What a process says that plans on such a cluster, with such trouble."""
    for needed in ("psutil", LIBRARIES[engine]):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: the extra clusters brings it")
    paths = os.pathsep.join([str(SCRIPT.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    alone = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), engine, trouble, str(folder)]
    result = ended(command, env=alone, seconds=LONGEST)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.alone
@pytest.mark.parametrize("engine", ["loky", "dask", "ray"])
def test_a_worker_that_is_killed_costs_nothing_but_time(tmp_path: Path, engine: str) -> None:
    first, *_, last = said(engine, "killed", tmp_path)  # between them Ray itself tells of it
    assert (first, last) == ("killed", "cells 15, same True")


@pytest.mark.alone
def test_a_full_disk_on_one_worker_is_named_and_leaves_whole_parts(tmp_path: Path) -> None:
    error, then = said("dask", "full", tmp_path)
    assert error.startswith("OSError: [Errno 27] File too large: '")
    assert f"{tmp_path}/two/blocks/" in error
    assert error.endswith("; unfinished []")
    assert then == "cells 15, same True"


@pytest.mark.alone
def test_a_worker_without_the_package_is_told_by_its_error(tmp_path: Path) -> None:
    error, then = said("bare", "none", tmp_path)
    rule = "RuntimeError: workers must stay, be able to import batchcut, and see the folder; got "
    assert error.startswith(rule)
    assert "No module named 'batchcut'" in error
    assert then == "cells 15, same True"
