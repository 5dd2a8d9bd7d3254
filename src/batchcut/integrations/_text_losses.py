"""Losses of sentence-transformers: their temperature, and a background beside the candidates of a batch."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from sentence_transformers.sentence_transformer.losses import AdaptiveLayerLoss, MultipleNegativesRankingLoss
from sentence_transformers.util import cos_sim, dot_score, pairwise_dot_score
from torch import Tensor
from torch.nn.functional import normalize

from batchcut.losses import Background, log_denominators

_RANKING = MultipleNegativesRankingLoss.compute_loss_from_embeddings
_SIDES = {("query_to_doc",): 1, ("query_to_doc", "doc_to_query"): 2}


def temperature_of(loss: Any) -> float | None:
    """τ of a loss of sentence-transformers: its temperature, or 1 / scale; of a wrapper, that of the loss within.

    One that is learned is taken as it is now. None where there is none, or where it is of other similarities than the
    cosines that plans are made of.
    """
    if getattr(loss, "similarity_fct", cos_sim) in (dot_score, pairwise_dot_score):
        return None
    for name, exponent in (("temperature", 1), ("scale", -1)):
        value = getattr(loss, name, None)
        if isinstance(value, Tensor) and value.numel() == 1:
            value = value.item()
        number = float(value) if isinstance(value, Real) else 0.0
        if number > 0:
            return number**exponent
    inner = getattr(loss, "loss", None)
    return None if inner is None else temperature_of(inner)


def add_background(loss: Any, background: Callable[[], Background | None]) -> bool:
    """Lets a loss, or the loss within a wrapper, see a background at each step; whether it is one that can.

    A `MultipleNegativesRankingLoss` of cosines can, with queries among documents, or in both directions each with a
    softmax of its own; other losses, those that cache among them, stay as they are. So do those that compute something
    else from the embeddings, and those of several layers: old embeddings are of the last one.
    """
    if not isinstance(loss, MultipleNegativesRankingLoss):
        alone = isinstance(loss, AdaptiveLayerLoss) or hasattr(loss, "mini_batch_size")
        inner = None if alone else getattr(loss, "loss", None)
        return inner is not None and add_background(inner, background)
    sides = _SIDES.get(tuple(loss.directions), 0)
    own_softmax = sides == 1 or loss.partition_mode == "per_direction"
    if not sides or not own_softmax or loss.hardness_mode or loss.gather_across_devices:
        return False
    if loss.similarity_fct is not cos_sim or type(loss).compute_loss_from_embeddings is not _RANKING:
        return False
    ranked = loss.compute_loss_from_embeddings

    def beside(embeddings: list[Tensor], labels: Tensor) -> Tensor:
        old = background()
        if old is None:
            found: Tensor = ranked(embeddings, labels)
            return found
        return ranking_loss(embeddings, old, temperature=1 / loss.scale, sides=sides)

    vars(loss)["compute_loss_from_embeddings"] = beside
    return True


def ranking_loss(embeddings: list[Tensor], background: Background, *, temperature: float, sides: int) -> Tensor:
    """`MultipleNegativesRankingLoss` of queries and of columns of documents, (n, d) each, with a background.

    Queries look among the documents of all columns and the old ones of the second side; with two sides, documents of
    the first column look among the queries and the old ones of the first side too, and the mean is taken. Wrappers
    train the first numbers of an embedding alone; the background is cut so.
    """
    queries, *columns = (normalize(column.float(), dim=-1) for column in embeddings)
    logits = queries @ torch.cat(columns).mT / temperature
    back = logits[:, : len(queries)].mT
    positives = torch.eye(len(queries), logits.shape[1], dtype=torch.bool, device=logits.device)
    losses = []
    for anchors, rows, scores in ((queries, background.v, logits), (columns[0], background.u, back))[:sides]:
        old = rows[:, : anchors.shape[1]].to(anchors.device)[None]
        own = positives[:, : scores.shape[1]]
        denominators = log_denominators(scores[None], own, anchors[None], old, background, temperature)
        losses.append(denominators.mean() - logits.diagonal().mean())
    return torch.stack(losses).mean()
