"""A background in the losses of sentence-transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from tests.integrations._texts_run import Run, tiny_model
from torch import Tensor

from batchcut.integrations._text_losses import add_background, ranking_loss
from batchcut.losses import Background, contrastive_loss

SYMMETRIC: Any = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
TWO_EPOCHS = {"num_train_epochs": 2, "save_strategy": "no", "learning_rate": 1e-4}  # old embeddings are good


def _rows(count: int, seed: int, dim: int = 6) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def _background(share: float = 0.3) -> Background:
    live = torch.tensor([True] * 8 + [False])
    return Background(u=_rows(9, 10), v=_rows(9, 11), share=share, largest_weight=50.0, live=live)


def test_both_directions_of_pairs_are_the_contrastive_loss() -> None:
    u, v = _rows(5, 0), _rows(5, 1)
    found = ranking_loss([u, v], _background(), temperature=0.1, sides=2)
    torch.testing.assert_close(found, contrastive_loss(u, v, temperature=0.1, background=_background()))


@pytest.mark.parametrize("negatives", [0, 2])
@pytest.mark.parametrize("sides", [1, 2])
def test_without_a_share_it_is_the_loss_of_sentence_transformers(tmp_path: Path, negatives: int, sides: int) -> None:
    columns = [_rows(5, seed) for seed in range(2 + negatives)]
    settings = SYMMETRIC if sides == 2 else {}
    alone = losses.MultipleNegativesRankingLoss(tiny_model(tmp_path), scale=10.0, **settings)
    found = ranking_loss(columns, _background(share=0.0), temperature=0.1, sides=sides)
    torch.testing.assert_close(found, alone.compute_loss_from_embeddings(columns, torch.empty(0)))


def test_negatives_of_a_query_count_in_the_share() -> None:
    """By the definition, one row after the other."""
    columns, background, tau = [_rows(4, seed) for seed in range(3)], _background(share=0.25), 0.2
    unit = [torch.nn.functional.normalize(column, dim=1) for column in columns]
    old = torch.nn.functional.normalize(background.v[:8], dim=1)
    expected = []
    for i in range(4):
        scores = torch.exp(torch.cat(unit[1:]) @ unit[0][i] / tau)
        beside = torch.exp(old @ unit[0][i] / tau).sum()
        negatives = scores.sum() - scores[i]
        weight = torch.clamp(0.25 / 0.75 * negatives / beside, max=background.largest_weight)
        expected.append(torch.log(scores.sum() + weight * beside) - torch.log(scores[i]))
    found = ranking_loss(columns, background, temperature=tau, sides=1)
    torch.testing.assert_close(found, torch.stack(expected).mean())


def test_a_wrapper_that_trains_fewer_numbers_sees_as_many_of_the_background() -> None:
    u, v, old = _rows(5, 0), _rows(5, 1), _background()
    cut = Background(u=old.u[:, :3], v=old.v[:, :3], share=0.3, largest_weight=50.0, live=old.live)
    found = ranking_loss([u[:, :3], v[:, :3]], old, temperature=0.1, sides=2)
    torch.testing.assert_close(found, ranking_loss([u[:, :3], v[:, :3]], cut, temperature=0.1, sides=2))


class Weighted(losses.MultipleNegativesRankingLoss):
    """A loss of a user, which is none of the trainer's."""

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        return 2 * super().compute_loss_from_embeddings(embeddings, labels)


def _kinds(model: SentenceTransformer) -> dict[str, tuple[Any, bool]]:
    ranking = losses.MultipleNegativesRankingLoss
    return {
        "plain": (ranking(model), True),
        "symmetric": (ranking(model, **SYMMETRIC), True),
        "wrapped": (losses.MatryoshkaLoss(model, ranking(model), [16, 8]), True),
        "one softmax for all": (ranking(model, directions=("query_to_doc", "doc_to_query")), False),
        "weighted": (ranking(model, hardness_mode="all_negatives", hardness_strength=1.0), False),
        "of a user": (Weighted(model), False),
        "layers": (losses.AdaptiveLayerLoss(model, ranking(model)), False),
        "cached": (losses.CachedMultipleNegativesRankingLoss(model), False),
        "other": (losses.CoSENTLoss(model), False),
    }


@pytest.mark.parametrize(
    "name",
    ["plain", "symmetric", "wrapped", "one softmax for all", "weighted", "of a user", "layers", "cached", "other"],
)
def test_which_losses_can(tmp_path: Path, name: str) -> None:
    loss, expected = _kinds(tiny_model(tmp_path))[name]
    assert add_background(loss, lambda: None) is expected


def test_planned_epochs_have_one_and_others_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, options=TWO_EPOCHS, shuffled_epochs=1)
    seen = []
    drawn = run.planned._background

    def noted(rows: Tensor | None) -> Background | None:
        seen.append(drawn(rows))
        return seen[-1]

    monkeypatch.setattr(run.planned, "_background", noted)
    run.train()
    assert len(seen) == 14
    assert all(one is None for one in seen[:7])
    assert any(one is not None for one in seen[7:])


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    run = Run(tmp_path, options=TWO_EPOCHS, shuffled_epochs=1, background=False)
    run.train()
    assert run.planned.sampler is not None
    assert run.planned.sampler.background is False
    assert run.planned._background(torch.arange(4)) is None


def test_evaluation_has_none(tmp_path: Path) -> None:
    run = Run(tmp_path, options=TWO_EPOCHS, shuffled_epochs=1)
    run.train()
    assert run.planned._background(torch.arange(4)) is not None
    assert run.planned._background(None) is None


@pytest.mark.parametrize("stopped", [False, True])
def test_after_the_training_the_loss_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    """Another trainer may be given the same model and loss, and not be planned for."""
    run = Run(tmp_path, options=TWO_EPOCHS, shuffled_epochs=1)

    def interrupt(*_: object, **__: object) -> None:
        if run.trainer.state.global_step == 10:
            raise KeyboardInterrupt

    if stopped:
        monkeypatch.setattr(run.planned, "on_step_end", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run.train()
    else:
        run.train()
    assert run.planned._background(torch.arange(4)) is not None
    columns, fresh = [_rows(4, 0, 16), _rows(4, 1, 16)], losses.MultipleNegativesRankingLoss(run.model)
    found = run.loss.compute_loss_from_embeddings(columns, torch.empty(0))
    torch.testing.assert_close(found, fresh.compute_loss_from_embeddings(columns, torch.empty(0)))
    assert not list(run.model.children())[-1]._forward_hooks
