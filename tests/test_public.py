"""What users may rely on: the names, and what importing them costs."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import batchcut

REFERENCE = Path(__file__).parents[1] / "docs" / "api"
MOST_NAMES = 20

PUBLIC = {
    "BatchPlan",
    "Cut",
    "EmbeddingBank",
    "Indexed",
    "Ordered",
    "PlannedBatchSampler",
    "PlannedLoader",
    "Sharding",
    "Shuffle",
    "SogCLR",
    "Spectral",
    "StreamPlanner",
    "contrastive_loss",
    "nt_xent",
}

PACKAGES = (
    "batchcut.data",
    "batchcut.demo",
    "batchcut.evaluation",
    "batchcut.integrations",
    "batchcut.losses",
    "batchcut.losses.paper",
    "batchcut.paper",
    "batchcut.paper.claims",
    "batchcut.report",
    "batchcut.sampling",
    "batchcut.scale",
    "batchcut.selection",
    "batchcut.theory",
    "batchcut.training",
)
"""What each package promises; what it holds for our other packages alone is not here."""

LOADS_FRAMEWORKS = {"batchcut.integrations"}
"""Whose names tests/integrations loads."""


def shown() -> list[tuple[str, str]]:
    """What the reference shows: packages and names in them."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted(REFERENCE.glob("*.md")))
    return re.findall(r"^::: (\S+)\.(\w+)$", pages, re.MULTILINE)


def test_public_names() -> None:
    assert set(batchcut.__all__) == PUBLIC
    assert len(PUBLIC) <= MOST_NAMES


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_name_resolves_and_is_documented(name: str) -> None:
    assert getattr(batchcut, name).__doc__
    assert name in dir(batchcut)


@pytest.mark.parametrize("package", [name for name in PACKAGES if name.count(".") == 1])
def test_packages_resolve(package: str) -> None:
    name = package.removeprefix("batchcut.")
    assert batchcut.__getattr__(name) is importlib.import_module(package)
    assert name in dir(batchcut)


@pytest.mark.parametrize("package", sorted(set(PACKAGES) - LOADS_FRAMEWORKS))
def test_public_names_of_packages_are_documented(package: str) -> None:
    found = importlib.import_module(package)
    assert all(getattr(found, name).__doc__ for name in found.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_shows_the_public_names_of_packages(package: str) -> None:
    public = sorted(importlib.import_module(package).__all__)
    assert sorted(name for home, name in shown() if home == package) == public


def test_the_reference_shows_public_packages_alone() -> None:
    assert {home for home, _ in shown()} == set(PACKAGES)


def test_public_names_are_in_the_reference_of_their_package() -> None:
    home_of = {name: home for home, name in shown() if home != "batchcut.losses.paper"}
    for name in PUBLIC:
        assert getattr(importlib.import_module(home_of[name]), name) is getattr(batchcut, name)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'batchcut' has no attribute 'nonsense'"):
        _ = batchcut.nonsense


def loaded_by(code: str) -> set[str]:
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(name.partition('.')[0] for name in sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(json.loads(result.stdout))


HEAVY = {"torch", "numpy", "scipy", "sklearn", "numba", "matplotlib", "lightning", "transformers", "rich", "cyclopts"}


@pytest.mark.slow
def test_import_loads_nothing_heavy() -> None:
    assert not loaded_by("import batchcut; batchcut.__version__; dir(batchcut)") & HEAVY


def test_the_command_line_loads_what_a_verb_needs_when_it_runs() -> None:
    loaded = loaded_by("from batchcut.cli._app import parsed; parsed(['train', '--show'])")
    assert not loaded & (HEAVY - {"rich", "cyclopts"})


@pytest.mark.slow
def test_losses_load_torch_alone_of_the_frameworks() -> None:
    loaded = loaded_by("import batchcut; batchcut.contrastive_loss")
    assert "torch" in loaded
    assert not loaded & {"matplotlib", "lightning", "transformers", "scipy", "sklearn", "numba"}


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert batchcut.__version__ == version("batchcut")
