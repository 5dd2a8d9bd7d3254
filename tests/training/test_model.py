"""Encoders."""

import pytest
import torch

from batchcut.training import ModelSettings
from batchcut.training._model import build_model, resnet18


def test_resnet18_has_torchvisions_keys_and_size() -> None:
    state = resnet18().state_dict()
    assert len(state) == 120  # 122 in torchvision, with fc.weight and fc.bias
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    assert "layer4.1.bn2.running_var" in state
    assert sum(p.numel() for p in resnet18().parameters()) == 11_176_512


def test_the_stems_differ_in_resolution_and_zero_init_silences_branches() -> None:
    images = torch.rand(2, 3, 32, 32)
    network = resnet18(stem="cifar", zero_init=True).eval()
    assert network.maxpool(network.conv1(images)).shape[-1] == 32
    assert resnet18().maxpool(resnet18().conv1(images)).shape[-1] == 8
    assert float(network.get_parameter("layer1.0.bn2.weight").detach().abs().max()) == 0
    assert network(images).shape == (2, 512)


@pytest.mark.parametrize("two_towers", [False, True])
def test_embeddings_are_unit_vectors_and_a_function_of_the_seed(two_towers: bool) -> None:
    settings = ModelSettings(encoder="mlp", width=8, projection=0, dim=4, two_towers=two_towers)
    x = torch.randn(5, 3)
    u, v = build_model(settings, seed=1, inputs=(3, 3))(x, x)
    torch.testing.assert_close(u.norm(dim=1), torch.ones(5))
    assert torch.equal(u, v) != two_towers
    assert torch.equal(build_model(settings, seed=1, inputs=(3, 3))(x, x)[0], u)
    assert not torch.equal(build_model(settings, seed=2, inputs=(3, 3))(x, x)[0], u)


def test_a_shared_tower_takes_sides_of_one_width() -> None:
    with pytest.raises(ValueError, match=r"model.two_towers must be true where the sides are 3 and 4 wide; got False"):
        build_model(ModelSettings(encoder="linear"), seed=0, inputs=(3, 4))
