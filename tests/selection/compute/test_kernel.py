"""The decorator of compiled functions."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import batchcut
from batchcut.selection.compute import kernel


@kernel
def halved(x: float, y: float) -> float:
    """x / y."""
    return x / y


@kernel(fastmath=True, inline="always")
def doubled(x: float) -> float:
    """2 x."""
    return 2 * x


def test_functions_are_compiled_and_keep_what_they_say() -> None:
    assert doubled(halved(3.0, 2.0)) == 3.0
    assert halved.__doc__ == "x / y."
    assert halved(1.0, 0.0) == np.inf  # Numba's own default would raise an error


def test_options_of_all_kernels_stand_in_one_place() -> None:
    for function in (halved, doubled):
        options = vars(function)["targetoptions"]
        assert options["nogil"]
        assert options["error_model"] == "numpy"
    assert vars(doubled)["targetoptions"]["fastmath"]


@pytest.mark.slow
def test_where_nothing_can_be_written_each_process_compiles_and_says_so_once(tmp_path: Path) -> None:
    package = tmp_path / "batchcut"
    shutil.copytree(Path(batchcut.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("")  # as good as read-only, for the superuser too
    program = "import numpy as np; from batchcut import Cut; x = np.eye(8); print(len(Cut()(x, x, batch_size=4)))"
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null", "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment | nowhere, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "2\n"), result.stderr
    assert result.stderr.count("RuntimeWarning") == 1
    assert result.stderr.count("NUMBA_CACHE_DIR") == 1
