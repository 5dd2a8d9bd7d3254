"""Embeddings of a set by the model as it is, its retrieval score, and the statistics of batch norm that both need."""

import statistics
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.optim.swa_utils import update_bn

from batchcut._random import Stream
from batchcut.evaluation import retrieval

from ._data import Indices, Source
from ._model import Towers
from ._random import generator

_SCORES = ("top1", "top5", "top10", "mrr", "mean_rank", "median_rank")
_NORM_BATCH = 256  # large, so that deeper layers see what the test will show them


@torch.no_grad()
def embed(
    model: Towers, source: Source, index: Indices, device: torch.device, *numbers: int, batch_size: int
) -> tuple[Tensor, Tensor]:
    """Embeddings u, v: (n, dim) of the samples index: (n,), in evaluation mode, on the CPU."""
    was_training = model.training
    model.eval()
    parts = []
    for start in range(0, len(index), batch_size):
        some = index[start : start + batch_size]
        parts.append(model(*source.sides(some, device, *numbers, start)))
    model.train(was_training)
    u, v = (torch.cat(side).cpu() for side in zip(*parts, strict=True))
    return u, v


def score(
    model: Towers, source: Source, device: torch.device, *, seed: int, draws: int, batch_size: int
) -> dict[str, float]:
    """Retrieval of each sample's other side among all: means over draws of views, and the spread of the first.

    The draws are the same at each call, so that scores over time are of the same views.
    """
    everything = np.arange(len(source))
    results = []
    for draw in range(draws if source.random else 1):
        u, v = embed(model, source, everything, device, Stream.EVALUATION, seed, draw, batch_size=batch_size)
        results.append(retrieval(u.numpy(), v.numpy()))
    scores = {name: statistics.fmean(float(getattr(result, name)) for result in results) for name in _SCORES}
    if len(results) > 1:
        scores["top1_spread"] = statistics.stdev(result.top1 for result in results)
    return scores


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

    def batches() -> Iterator[list[tuple[Tensor, Tensor]]]:
        chosen = torch.randperm(len(source), generator=generator(Stream.STATISTICS, seed))[:samples].numpy()
        parts = max(1, len(chosen) // _NORM_BATCH)
        for part in range(parts):
            yield [source.sides(chosen[part::parts], device, Stream.STATISTICS, seed, part)]

    # `update_bn` gives a model one argument, which is the two sides here.
    with model.register_forward_pre_hook(lambda _, arguments: arguments[0]):
        update_bn(batches(), model)
