"""Batch norm for the test: statistics of the set, not of planned batches."""

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ._model import Towers
from ._random import STATISTICS, generator
from ._source import Source

_BATCH = 256  # large, so that deeper layers see what the test will show them


@torch.no_grad()
def renew_statistics(model: Towers, source: Source, device: torch.device, *, seed: int, samples: int) -> None:
    """Sets the running means and variances of batch norm to plain means over shuffled batches.

    The samples of a planned batch resemble each other, so their variance is smaller than that of the set; running
    means of it are what evaluation mode divides by. Training mode does not use them: the weights do not depend on this.

    Args:
        model: whose statistics are set; nothing happens if it has no batch norm.
        source: the training set.
        device: where the model is.
        seed: of the samples and their views, the same at each call.
        samples: how many are looked at, at most all of the set.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    if not layers:
        return
    was_training, momenta = model.training, [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # which is torch's word for a plain mean
    model.train()
    chosen = torch.randperm(len(source), generator=generator(STATISTICS, seed))[:samples].numpy()
    parts = max(1, len(chosen) // _BATCH)
    for part in range(parts):
        model(*source.sides(chosen[part::parts], device, STATISTICS, seed, part))
    model.train(was_training)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
