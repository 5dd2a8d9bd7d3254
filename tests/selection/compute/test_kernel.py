"""The decorator of compiled functions."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import config

import batchcut
from batchcut.selection.compute import _kernel, kernel


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


def fresh_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function whose compiled code is kept in the folder, as a new process would see it."""
    monkeypatch.setattr(config, "CACHE_DIR", str(folder))
    return kernel(vars(halved)["py_func"])


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_files_of_compiled_code_are_written_anew(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fresh_kernel(tmp_path, monkeypatch)(3.0, 2.0) == 1.5
    (file,) = tmp_path.rglob(f"*.{suffix}")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 2 // 3])
    assert fresh_kernel(tmp_path, monkeypatch)(3.0, 2.0) == 1.5
    again = fresh_kernel(tmp_path, monkeypatch)
    assert again(3.0, 2.0) == 1.5
    assert sum(again.stats.cache_hits.values()) == 1


def test_a_full_disk_is_told_once_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kernel, "_warned", set())
    first, second = fresh_kernel(tmp_path, monkeypatch), fresh_kernel(tmp_path, monkeypatch)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.warns(RuntimeWarning, match=r"cannot be written to \(.*File too large.*NUMBA_CACHE_DIR") as told:
            assert [function(3.0, 2.0) for function in (first, second)] == [1.5, 1.5]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(told) == 1
