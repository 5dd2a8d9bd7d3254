"""The scene of all tables of faults."""

import shutil
from pathlib import Path

import pytest
from tests.faults._scene import make_scene


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scene")
    make_scene(folder)
    return folder


@pytest.fixture
def folder(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the scene, as the present folder."""
    copy = tmp_path / "scene"
    shutil.copytree(scene, copy)
    # The run in it names its data by their path.
    settings = (copy / "run" / "config.toml").read_text().replace(str(scene), str(copy))
    (copy / "run" / "config.toml").write_text(settings)
    monkeypatch.chdir(copy)
    return copy
