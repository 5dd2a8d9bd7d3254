"""The model of a run."""

from pathlib import Path

import pytest
import torch

from batchcut.data import Images, Pairs, load
from batchcut.training import train, trained_model

from ._runs import image_config, pairs_config, write_pairs


def test_images_are_embedded_in_parts_by_the_views_of_each_part(tmp_path: Path) -> None:
    train(image_config(epochs=1), tmp_path / "run")
    test = load("digits").test
    assert isinstance(test, Images)
    pixels = test.pixels[:25]
    model = trained_model(tmp_path / "run")
    assert not model.towers.training
    u, v = model.embed(pixels, batch_size=10)
    parts = [model.views(pixels[start : start + 10], (start,)) for start in (0, 10, 20)]
    assert torch.equal(u, torch.cat([part[0] for part in parts]))
    assert torch.equal(v, torch.cat([part[1] for part in parts]))
    assert not torch.equal(u, v)


def test_features_need_the_data_for_their_widths(tmp_path: Path) -> None:
    config = pairs_config(write_pairs(tmp_path / "pairs.npz"), epochs=1)
    train(config, tmp_path / "run")
    split = load(config.data.name)
    assert isinstance(split.test, Pairs)
    u, v = trained_model(tmp_path / "run", split).pairs(split.test)
    assert u.shape == v.shape == (len(split.test), config.model.dim)
    with pytest.raises(ValueError, match=r"split must be given where a run learnt from features; got None"):
        trained_model(tmp_path / "run")
