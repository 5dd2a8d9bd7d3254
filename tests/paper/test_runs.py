from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning")

from batchcut import Cut, Ordered, Shuffle, Spectral
from batchcut.paper import Settings
from batchcut.paper._runs import (
    METHODS,
    Size,
    config_of,
    every_run,
    images_of,
    scores_of,
    selector_of,
    sizes,
    trained,
    workplace,
)
from batchcut.paper.figures._histograms import AT_ONCE
from batchcut.training import trained_model

QUICK = Settings(scale="quick")


def tiny() -> Size:
    return replace(sizes(QUICK)[0], train=64, test=16, epochs=2, width=4)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    config = config_of(tiny(), "SC", "simclr", 0)
    return config, trained(config, tmp_path_factory.mktemp("work"), lambda share: None)


def test_sets(tmp_path: Path) -> None:
    assert [size.data for size in sizes(QUICK)] == ["digits"]
    with pytest.raises(ValueError, match="cifar must be the folder cifar-100-python, which holds the file train; got"):
        sizes(Settings(cifar=tmp_path))
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    (folder / "train").write_bytes(b"")
    cifar, digits = sizes(Settings(cifar=folder))
    assert (cifar.data, cifar.root, digits.data) == ("cifar100", tmp_path.resolve(), "digits")
    assert cifar.as_data()["train"] == 6400
    assert "root" not in cifar.as_data()


def test_every_method_takes_the_same_number_of_steps() -> None:
    kinds = {"SGD": Shuffle, "OSGD": Ordered, "SC": Spectral, "Cut": Cut}
    for method in METHODS:
        selector = selector_of(method, 8)
        assert isinstance(selector, kinds[method])
        assert selector.batch_count(256, 32) == 8


def test_a_run_is_made_once_and_gone_on_with(run: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    config, folder = run
    seen: list[float] = []
    before = (folder / "metrics.jsonl").read_bytes()
    assert trained(config, folder.parent, seen.append) == folder
    assert seen == [1.0]
    (folder / "result.json").unlink()
    assert trained(config, folder.parent, seen.append) == folder
    assert (folder / "result.json").is_file()
    assert (folder / "metrics.jsonl").read_bytes() == before
    assert trained(replace(config, seed=1), folder.parent, seen.append) != folder


def test_scores_and_encoder(run: tuple[Any, Path]) -> None:
    config, folder = run
    assert 0 <= scores_of(folder)["top1"] <= 1
    images = images_of(config, "test", 10)
    assert len(images) == 10
    last, first, fourth = (
        trained_model(folder, step=step).embed(images.pixels, batch_size=AT_ONCE)[0] for step in (None, 2, 4)
    )
    assert last.shape == (10, config.model.dim)
    assert (last == fourth).all()
    assert (last != first).any()


def test_every_run_scores_each_seed(tmp_path: Path) -> None:
    size = replace(tiny(), epochs=1, seeds=2)
    seen: list[float] = []
    found = every_run(size, QUICK, tmp_path, lambda folder, config: float(config.seed), seen.append, methods=("SGD",))
    assert found == {"simclr": {"SGD": [0.0, 1.0]}, "sogclr": {"SGD": [0.0, 1.0]}}
    assert seen[-1] == 1.0
    assert seen == sorted(seen)


def test_workplace(tmp_path: Path) -> None:
    with workplace(Settings(work=tmp_path / "runs")) as kept:
        assert kept == tmp_path / "runs"
    assert kept.is_dir()
    with workplace(QUICK) as passing:
        assert passing.is_dir()
    assert not passing.exists()
