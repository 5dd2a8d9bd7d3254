"""Statistics of batch norm from shuffled batches, before a model is scored."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.testing import assert_close

from batchcut._random import Stream
from batchcut.data import load
from batchcut.training import EvaluationSettings, train
from batchcut.training._data import Indices, sources
from batchcut.training._model import build_model
from batchcut.training._random import generator
from batchcut.training._score import renew_statistics

from ._runs import image_config, lines, pairs_config, write_pairs

CPU = torch.device("cpu")


@pytest.mark.parametrize(("samples", "parts"), [(600, 2), (10_000, 5), (2, 1)])
def test_they_are_plain_means_over_shuffled_batches(samples: int, parts: int) -> None:
    config = image_config()
    source, _ = sources(load("digits"), type(config.data)(name="digits"), config.views)
    model = build_model(config.model, seed=0, inputs=None).train()
    first = next(layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d))
    seen: list[Tensor] = []
    with torch.no_grad():
        model(*source.sides(np.arange(8), CPU, 1))  # statistics that must be forgotten
    with first.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
        renew_statistics(model, source, CPU, seed=3, samples=samples)
    assert len(seen) == parts
    assert sum(len(x) for x in seen) == 2 * min(samples, len(source))  # two views of each
    assert_close(first.running_mean, torch.stack([x.mean((0, 2, 3)) for x in seen]).mean(0))
    assert_close(first.running_var, torch.stack([x.var((0, 2, 3)) for x in seen]).mean(0))
    assert first.momentum == 0.1
    assert model.training


def test_the_samples_are_a_random_part_of_the_set() -> None:
    config = image_config()
    source, _ = sources(load("digits"), type(config.data)(name="digits"), config.views)
    asked: list[int] = []
    sides = source.sides

    def listen(index: Indices, device: torch.device, *numbers: int) -> tuple[Tensor, Tensor]:
        asked.extend(index.tolist())
        return sides(index, device, *numbers)

    source.sides = listen  # type: ignore[method-assign]
    renew_statistics(build_model(config.model, seed=0, inputs=None), source, CPU, seed=3, samples=300)
    order = torch.randperm(len(source), generator=generator(Stream.STATISTICS, 3))
    assert sorted(asked) == sorted(order[:300].tolist())


def test_weights_and_losses_do_not_depend_on_them_and_the_model_that_is_kept_has_them(tmp_path: Path) -> None:
    kept = {}
    for name, samples in (("as they are", 0), ("renewed", 64)):
        train(image_config(evaluation=EvaluationSettings(statistics=samples, every_steps=3)), tmp_path / name)
        kept[name] = load_file(tmp_path / name / "model.safetensors")
    before, after = kept["as they are"], kept["renewed"]
    running = {key for key in before if "running" in key or "tracked" in key}
    assert all(torch.equal(before[key], after[key]) for key in before.keys() - running)
    assert not any(torch.equal(before[key], after[key]) for key in running)
    assert lines(tmp_path / "as they are", "losses") == lines(tmp_path / "renewed", "losses")
    config = image_config()
    source, _ = sources(load("digits"), config.data, config.views)
    model = build_model(config.model, seed=config.seed, inputs=None)
    model.load_state_dict(after)
    renew_statistics(model, source, CPU, seed=config.seed, samples=64)
    for key in running:
        assert_close(model.state_dict()[key], after[key])


def test_a_model_without_batch_norm_is_left_alone(tmp_path: Path) -> None:
    config = pairs_config(write_pairs(tmp_path / "pairs.npz"))
    source, _ = sources(load(config.data.name), config.data, config.views)
    model = build_model(config.model, seed=0, inputs=source.inputs).eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    renew_statistics(model, source, CPU, seed=0, samples=64)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert not model.training


@pytest.mark.parametrize("samples", [-1, 1])
def test_a_number_of_samples_that_cannot_be_is_refused(samples: int) -> None:
    with pytest.raises(ValueError, match=f"evaluation.statistics must be .*; got {samples}"):
        EvaluationSettings(statistics=samples)
