"""Frameworks are loaded when they are used, and missed with a word on what to install."""

import json

import pytest
from tests._launch import error_without, printed_by

from batchcut import integrations

FRAMEWORK_OF = {
    "PlannedTexts": "sentence_transformers",
    "PlanningCallback": "lightning",
    "PlanningMixin": "transformers",
    "prepare_loader": "accelerate",
    "sharding_of": "accelerate",
}


def test_public_names() -> None:
    assert set(integrations.__all__) == set(FRAMEWORK_OF)
    assert set(FRAMEWORK_OF) <= set(dir(integrations))


@pytest.mark.parametrize("name", FRAMEWORK_OF)
def test_public_names_resolve_and_are_documented(name: str) -> None:
    assert getattr(integrations, name).__doc__


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match=r"module 'batchcut.integrations' has no attribute 'nonsense'"):
        _ = integrations.nonsense


@pytest.mark.slow
def test_importing_loads_no_framework() -> None:
    script = "import json, sys\nimport batchcut.integrations as it\ndir(it)\nprint(json.dumps(list(sys.modules)))"
    loaded = {module.partition(".")[0] for module in json.loads(printed_by(script))}
    assert "batchcut" in loaded
    assert not loaded & {*FRAMEWORK_OF.values(), "torch", "datasets", "torchdata", "numpy"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "framework"), [(name, FRAMEWORK_OF[name]) for name in sorted(FRAMEWORK_OF)])
def test_a_missing_framework_is_named_with_what_to_install(name: str, framework: str) -> None:
    text = f'{name} needs {framework}, and {framework} is not installed: pip install "batchcut[integrations]" brings it'
    assert error_without(framework, f"from batchcut import integrations; integrations.{name}") == text
