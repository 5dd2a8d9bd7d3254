"""A background in a loss of sentence-transformers: old embeddings beside the candidates of a batch."""

from collections.abc import Callable
from typing import Any

import torch
from sentence_transformers.sentence_transformer.losses import AdaptiveLayerLoss, MultipleNegativesRankingLoss
from sentence_transformers.util import cos_sim
from torch import Tensor
from torch.nn.functional import normalize

from batchcut.losses import Background, log_denominators

_RANKING = MultipleNegativesRankingLoss.compute_loss_from_embeddings
_SIDES = {("query_to_doc",): 1, ("query_to_doc", "doc_to_query"): 2}


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
