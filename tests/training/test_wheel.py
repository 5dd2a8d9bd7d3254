"""What is installed has what it needs beside the code."""

import fnmatch
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_file_beside_the_code_is_package_data() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["batchcut"]
    package = ROOT / "src" / "batchcut"
    files = [path.relative_to(package) for path in package.rglob("*") if path.is_file()]
    others = [path for path in files if path.suffix not in (".py", ".pyc", ".nbi", ".nbc")]
    assert {"training/recipes/digits.toml", "paper/recipes/paper-cifar100-simclr-sgd.toml"} <= set(map(str, others))
    assert [path for path in others if not any(fnmatch.fnmatch(str(path), pattern) for pattern in patterns)] == []


@pytest.mark.slow
def test_a_recipe_trains_from_an_installed_wheel(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    offline = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    pip = [sys.executable, "-m", "pip"]
    source = tmp_path / "source"  # a build leaves things beside the code
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([*pip, "wheel", *offline, "--wheel-dir", str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("batchcut-*.whl")
    target = tmp_path / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--quiet", "--target", str(target), str(wheel)], check=True)
    environment = os.environ | {"PYTHONPATH": str(target), "OMP_NUM_THREADS": "1"}
    where = [sys.executable, "-c", "import batchcut; print(batchcut.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(str(target))
    few = ("epochs=1", "data.train=64", "data.test=16", "--quiet")
    command = [sys.executable, "-m", "batchcut", "train", "--recipe", "digits", *few, "-o", str(tmp_path / "run")]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "run" / "result.json").is_file()
