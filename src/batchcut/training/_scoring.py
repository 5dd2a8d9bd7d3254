"""Embeddings of a set by the model as it is, and its retrieval score."""

import statistics

import numpy as np
import torch
from torch import Tensor

from batchcut.evaluation import retrieval

from ._model import Towers
from ._random import EVALUATION
from ._source import Indices, Source

_SCORES = ("top1", "top5", "top10", "mrr", "mean_rank", "median_rank")


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
        u, v = embed(model, source, everything, device, EVALUATION, seed, draw, batch_size=batch_size)
        results.append(retrieval(u.numpy(), v.numpy()))
    scores = {name: statistics.fmean(float(getattr(result, name)) for result in results) for name in _SCORES}
    if len(results) > 1:
        scores["top1_spread"] = statistics.stdev(result.top1 for result in results)
    return scores
