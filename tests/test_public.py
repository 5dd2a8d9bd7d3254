"""What users may rely on: the names, and what importing them costs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import batchcut
from batchcut import data, demo, evaluation, losses, report, sampling, selection, theory, training

REFERENCE = Path(__file__).parents[1] / "docs" / "api"

PUBLIC = {
    "BatchPlan",
    "Cut",
    "EmbeddingBank",
    "HardestOf",
    "Indexed",
    "Ordered",
    "PlannedBatchSampler",
    "Sharding",
    "Shuffle",
    "SogCLR",
    "Spectral",
    "StreamPlanner",
    "contrastive_loss",
    "data",
    "evaluation",
    "full_batch_loss",
    "gather",
    "gathered_contrastive_loss",
    "integrations",
    "losses",
    "minibatch_loss",
    "nt_xent",
    "order_weights",
    "ordered_loss",
    "pair_weights",
    "sampling",
    "selection",
    "theory",
    "training",
}


LOSSES = {
    "SogCLR",
    "contrastive_loss",
    "full_batch_loss",
    "gather",
    "gathered_contrastive_loss",
    "minibatch_loss",
    "nt_xent",
    "order_weights",
    "ordered_loss",
    "sogclr_loss",
    "two_sided_loss",
}

THEORY = {
    "Agreement",
    "Check",
    "Descent",
    "Found",
    "Minimum",
    "OpenCase",
    "all_batches",
    "asymmetry",
    "checks",
    "configuration_name",
    "cross_polytope",
    "descend",
    "distance_to_optimum",
    "full_batch",
    "is_cross_polytope",
    "is_equiangular_tight_frame",
    "is_simplex_etf",
    "jensen_bound",
    "labels",
    "minimise",
    "non_antipodality",
    "open_case",
    "optimal_loss",
    "osgd_bound",
    "over_batches",
    "random_embeddings",
    "run_checks",
    "simplex_etf",
    "smoothness",
    "spectrum",
    "toy_embeddings",
    "toy_steps",
    "toy_trajectory",
}

DATA = {
    "CorruptedImages",
    "Images",
    "Pairs",
    "Split",
    "check_name",
    "load",
    "load_corrupted",
    "needs",
    "open_arrays",
    "open_npy",
}

EVALUATION = {
    "CORRUPTIONS",
    "Draws",
    "Health",
    "Probe",
    "Ranks",
    "Retrieval",
    "corrupt",
    "corrupted_retrieval",
    "grouped_retrieval",
    "health",
    "knn_accuracy",
    "linear_probe",
    "made_corruptions",
    "retrieval",
    "view_retrieval",
}

TRAINING = {
    "Config",
    "DataSettings",
    "DivergedError",
    "EvaluationSettings",
    "KeepingSettings",
    "MachineSettings",
    "ModelSettings",
    "ObjectiveSettings",
    "OptimiserSettings",
    "Result",
    "SelectionSettings",
    "TrainedModel",
    "ViewSettings",
    "config_of",
    "merged",
    "read_toml",
    "recipe",
    "recipe_names",
    "resume",
    "run_config",
    "to_toml",
    "train",
    "trained_model",
    "with_overrides",
}


def test_public_names() -> None:
    assert set(batchcut.__all__) == PUBLIC


@pytest.mark.parametrize(
    ("package", "names"),
    [(data, DATA), (evaluation, EVALUATION), (losses, LOSSES), (theory, THEORY), (training, TRAINING)],
)
def test_public_names_of_packages(package: ModuleType, names: set[str]) -> None:
    found = {name for name in dir(package) if not name.startswith("_")}
    assert {name for name in found if not isinstance(getattr(package, name), ModuleType)} == names


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_name_resolves_and_is_documented(name: str) -> None:
    assert getattr(batchcut, name).__doc__
    assert name in dir(batchcut)


@pytest.mark.parametrize("package", [data, evaluation, losses, sampling, selection, theory, training])
def test_public_names_of_packages_are_documented(package: object) -> None:
    public = [getattr(package, name) for name in dir(package) if not name.startswith("_")]
    assert all(item.__doc__ for item in public)


@pytest.mark.parametrize("package", [data, demo, evaluation, losses, report, sampling, selection, theory, training])
def test_public_names_of_packages_are_in_the_reference(package: ModuleType) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md"))
    shown = set(re.findall(rf"^::: {package.__name__}\.(\w+)$", text, re.MULTILINE))
    public = {name for name in dir(package) if not name.startswith("_")}
    assert shown == {name for name in public if not isinstance(getattr(package, name), ModuleType)}


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'batchcut' has no attribute 'nonsense'"):
        _ = batchcut.nonsense


def loaded_by(code: str) -> set[str]:
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(name.partition('.')[0] for name in sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(json.loads(result.stdout))


HEAVY = {"torch", "numpy", "scipy", "sklearn", "numba", "matplotlib", "lightning", "transformers", "rich", "tyro"}


def test_import_loads_nothing_heavy() -> None:
    assert not loaded_by("import batchcut; batchcut.__version__; dir(batchcut)") & HEAVY


def test_losses_load_torch_alone_of_the_frameworks() -> None:
    loaded = loaded_by("import batchcut; batchcut.contrastive_loss")
    assert "torch" in loaded
    assert not loaded & {"matplotlib", "lightning", "transformers", "scipy", "sklearn", "numba"}


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert batchcut.__version__ == version("batchcut")
