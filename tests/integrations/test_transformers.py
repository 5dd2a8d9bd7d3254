"""The mixin for the Hugging Face Trainer, by real trainers in one process and in two."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.integrations._runs import B, N, as_sets, flat, in_two_processes, planned_in, replanned, rows_of
from tests.integrations._trainer_run import (
    WIDTH,
    Captions,
    PlanningTrainer,
    Seen,
    Watched,
    arguments,
    collate,
    tiny_clip,
    trainer,
)
from torch import Tensor, nn
from torch.utils.data import IterableDataset
from transformers import Trainer, TrainerState
from transformers.trainer_utils import HPSearchBackend

import batchcut as bc
from batchcut.integrations import PlanningMixin
from batchcut.integrations._transformers import checkpoint_of
from batchcut.losses import Background

STEPS = 7
SHORT: dict[str, Any] = {"drop_last": False}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PlanningTrainer]:
    """A run of three epochs, with a checkpoint after each step."""
    folder = tmp_path_factory.mktemp("trainer")
    run = trainer(folder, **SHORT)
    run.train()
    return folder, run


def of_epoch(seen: Seen, epoch: int) -> Seen:
    return seen[epoch * STEPS : (epoch + 1) * STEPS]


def test_every_sample_once_an_epoch_in_batches_of_the_plan(whole: tuple[Path, PlanningTrainer]) -> None:
    _, run = whole
    assert len(run.seen) == 3 * STEPS
    assert [flat(of_epoch(run.seen, epoch)) for epoch in range(3)] == [list(range(N))] * 3
    assert run.sampler is not None
    assert as_sets(of_epoch(run.seen, 2)) == rows_of(run.sampler.plan)
    assert as_sets(of_epoch(run.seen, 1)) != as_sets(of_epoch(run.seen, 2))


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_the_bank_holds_the_embeddings_of_each_sample(tmp_path: Path, workers: int) -> None:
    options = {"learning_rate": 0.0, "num_train_epochs": 1, "save_strategy": "no", "dataloader_num_workers": workers}
    run = trainer(tmp_path, options=options, **SHORT)
    run.train()
    data = Captions()
    with torch.no_grad():
        outputs = tiny_clip()(input_ids=data.tokens, pixel_values=data.images)
    assert run.bank is not None
    torch.testing.assert_close(run.bank.u, outputs.text_embeds)
    torch.testing.assert_close(run.bank.v, outputs.image_embeds)


@pytest.mark.parametrize("step", [3, 7, 10, 14, 20], ids=["shuffled", "end", "planned", "second end", "last but one"])
def test_resume_gives_the_same_remaining_batches(
    whole: tuple[Path, PlanningTrainer], tmp_path: Path, step: int
) -> None:
    folder, run = whole
    again = trainer(tmp_path, **SHORT)
    again.train(resume_from_checkpoint=str(folder / f"checkpoint-{step}"))
    assert again.seen == run.seen[step:]


def test_resume_with_plans_made_ahead(whole: tuple[Path, PlanningTrainer], tmp_path: Path) -> None:
    run = trainer(tmp_path / "whole", plan_ahead=0.5, **SHORT)
    run.train()
    assert run.seen[STEPS:] != whole[1].seen[STEPS:]
    for step in (9, 13):  # before the plan of the third epoch is begun, and after
        again = trainer(tmp_path / str(step), plan_ahead=0.5, **SHORT)
        again.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{step}"))
        assert again.seen == run.seen[step:]


def test_the_bank_has_changed_since_the_plan_that_is_resumed(whole: tuple[Path, PlanningTrainer]) -> None:
    folder, run = whole
    state = torch.load(folder / "checkpoint-10" / "batchcut.pt", weights_only=True)
    assert (state["sampler"]["epoch"], state["sampler"]["position"]) == (1, 0)
    assert planned_in(state) == as_sets(of_epoch(run.seen, 1))
    assert planned_in(state) != replanned(state, drop_last=False, seed=42)


def test_resume_from_the_last_checkpoint_with_accumulated_gradients(tmp_path: Path) -> None:
    options = {"gradient_accumulation_steps": 2, "save_steps": 4, "num_train_epochs": 2}
    run = trainer(tmp_path, options=options)
    run.train()
    assert len(run.seen) == 12
    (tmp_path / "checkpoint-6").rename(tmp_path / "last")  # Made at the end of training.
    again = trainer(tmp_path, options=options)
    again.train(resume_from_checkpoint=True)
    assert again.seen == run.seen[8:]


def _numbers_in(background: Background | None) -> list[Any] | None:
    if background is None:
        return None
    assert background.live is not None
    return [background.share, background.u.tolist(), background.v.tolist(), background.live.tolist()]


class Looks(Watched):
    """Notes the background that a loss of its own would have, at two looks."""

    background: Any  # the mixin has it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.drawn: list[list[Any] | None] = []

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        first, second = (_numbers_in(self.background) for _ in range(2))
        assert first == second
        self.drawn.append(first)
        return super().compute_loss(*args, **kwargs)


class LooksAndPlans(PlanningMixin, Looks):
    """Behind the mixin, as a trainer of a user is."""


@pytest.mark.parametrize("accumulate", [1, 2])
def test_each_planned_batch_has_a_background_of_its_own_and_the_same_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accumulate: int
) -> None:
    draw, places = bc.PlannedBatchSampler.background_of, []

    def noted(sampler: bc.PlannedBatchSampler, index: Tensor, *, step: int) -> Background | None:
        places.append((sampler.epoch, step))
        return draw(sampler, index, step=step)

    monkeypatch.setattr(bc.PlannedBatchSampler, "background_of", noted)

    def made(folder: str) -> LooksAndPlans:
        args = arguments(tmp_path / folder, gradient_accumulation_steps=accumulate)
        return LooksAndPlans(model=tiny_clip(), args=args, train_dataset=Captions(), data_collator=collate, **SHORT)

    run, step = made("whole"), 10 // accumulate
    run.train()
    assert run.drawn[:STEPS] == [None] * STEPS
    assert sum(one is not None for one in run.drawn) > STEPS
    assert len(places) == 2 * len(set(places)) == 6 * STEPS
    again = made("again")
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{step}"))
    assert 0 < len(again.drawn) < 2 * STEPS
    assert again.drawn == run.drawn[-len(again.drawn) :]
    assert run.background is None  # outside of a step


def test_a_checkpoint_of_another_trainer_is_gone_on_from_with_a_warning(tmp_path: Path) -> None:
    Trainer(
        model=tiny_clip(),
        args=arguments(tmp_path / "plain", num_train_epochs=1, save_steps=3),
        train_dataset=Captions(),
        data_collator=collate,
    ).train()
    run = trainer(tmp_path / "planned", options={"num_train_epochs": 1}, **SHORT)
    with pytest.warns(UserWarning, match=r"batchcut.pt is not there: the bank starts as it is, and the epoch anew"):
        run.train(resume_from_checkpoint=str(tmp_path / "plain" / "checkpoint-3"))
    assert len(run.seen) == STEPS - 3


def test_evaluation_is_left_alone(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    run.train_dataset = None
    loss = run.evaluate(Captions(20))["eval_loss"]
    assert loss > 0
    assert run.bank is None


def test_the_seed_is_that_of_the_arguments(tmp_path: Path) -> None:
    for options, plan, seed in [({"seed": 3}, {}, 3), ({"data_seed": 0}, {}, 0), ({}, {"seed": 9}, 9)]:
        run = trainer(tmp_path, options={"num_train_epochs": 1, "save_strategy": "no", **options}, **plan)
        run.train()
        assert run.sampler is not None
        assert run.sampler.seed == seed


class Other(nn.Module):
    """A model with names of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, WIDTH)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        left, right = self.layer(x), self.layer(x + 1)
        return {"loss": bc.contrastive_loss(left, right), "left": left, "right": right}


class Plain(PlanningMixin, Trainer):
    """As the documents say."""


class Named(Plain):
    def embeddings_of(self, outputs: Any) -> tuple[Tensor, Tensor]:
        return outputs["left"], outputs["right"]


def other(kind: type[Plain], folder: Path, **settings: Any) -> Plain:
    data = [{"x": row} for row in torch.randn(N, 4, generator=torch.Generator().manual_seed(0))]
    args = arguments(folder, num_train_epochs=1, save_strategy="no")
    return kind(model=Other(), args=args, train_dataset=data, **settings)


def test_other_names_of_embeddings(tmp_path: Path) -> None:
    run = other(Named, tmp_path, **SHORT)
    run.train()
    assert run.bank is not None
    assert run.bank.coverage == 1.0


def test_a_model_without_embeddings_is_refused(tmp_path: Path) -> None:
    text = (
        r"the model's output must hold 'u' and 'v', 'text_embeds' and 'image_embeds', .*\(or override embeddings_of\)"
    )
    with pytest.raises(ValueError, match=text + r"; got \['left', 'loss', 'right'\]"):
        other(Plain, tmp_path).train()


def test_a_bank_of_another_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"bank must be as long as the training set, {N}; got 30"):
        other(Named, tmp_path, bank=bc.EmbeddingBank(30, WIDTH)).train()


class Stream(IterableDataset[dict[str, Tensor]]):
    """Samples without indices."""

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return iter([])


def test_a_stream_is_refused(tmp_path: Path) -> None:
    args = arguments(tmp_path, max_steps=3)
    run = Plain(model=Other(), args=args, train_dataset=Stream())
    with pytest.raises(TypeError, match=r"dataset must have items by index; for a stream there is StreamPlanner; got "):
        run.train()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return in_two_processes("tests.integrations._trainer_run", tmp_path_factory.mktemp("two"))


@pytest.mark.slow  # Near to that of accelerate.
@pytest.mark.parametrize(("name", "steps"), [("whole", 3), ("split", 6)])
def test_in_two_processes_each_sample_is_with_one(ranks: list[Any], name: str, steps: int) -> None:
    for epoch in range(3):
        mine, theirs = (rank[name]["seen"][epoch * steps : (epoch + 1) * steps] for rank in ranks)
        assert len(mine) == len(theirs) == steps
        together = flat(mine + theirs)
        assert len(set(together)) == len(together) == 48


@pytest.mark.slow  # Near to that of accelerate.
def test_in_two_processes_the_batches_are_those_of_the_plan(ranks: list[Any]) -> None:
    assert as_sets(batch for rank in ranks for batch in rank["whole"]["seen"][6:]) == as_sets(ranks[0]["whole"]["plan"])
    halves = zip(*(rank["split"]["seen"][12:] for rank in ranks), strict=True)
    assert as_sets(mine + theirs for mine, theirs in halves) == as_sets(ranks[0]["split"]["plan"])
    assert {len(batch) for rank in ranks for batch in rank["split"]["seen"]} == {B // 2}


@pytest.mark.slow  # Near to that of accelerate.
@pytest.mark.parametrize("name", ["whole", "split"])
def test_in_two_processes_resume(ranks: list[Any], name: str) -> None:
    for rank in ranks:
        assert rank[name]["resumed"] == rank[name]["seen"][4:]


def test_the_figures_of_each_plan_are_logged(whole: tuple[Path, PlanningTrainer]) -> None:
    _, run = whole
    logged = [entry for entry in run.state.log_history if "plan_loss" in entry]
    assert len(logged) == 2  # the first epoch is shuffled
    assert all(entry["plan_loss"] > 0 and entry["plan_bank_age"] > 0 for entry in logged), logged


NO_CHECKPOINTS: dict[str, Any] = {"num_train_epochs": 2, "save_strategy": "no"}


def test_the_losses_of_all_steps_are_logged_beside_plans(tmp_path: Path) -> None:
    run = trainer(tmp_path, options=NO_CHECKPOINTS | {"logging_steps": 1}, **SHORT)
    run.train()
    assert [entry["step"] for entry in run.state.log_history if "loss" in entry] == list(range(1, 2 * STEPS + 1))
    assert [entry["step"] for entry in run.state.log_history if "plan_loss" in entry] == [STEPS + 1]


class ByName(Trainer):
    """As many write it: the arguments that it does not need have no names."""

    def compute_loss(  # type: ignore[override]
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **more: Any
    ) -> Any:
        return super().compute_loss(model, inputs, return_outputs=return_outputs, **more)


class PlanningByName(PlanningMixin, ByName):  # type: ignore[misc]  # it names fewer arguments than the mixin
    """That, with planned batches."""


def test_a_loss_that_takes_its_arguments_by_name(tmp_path: Path) -> None:
    args = arguments(tmp_path, **NO_CHECKPOINTS, eval_strategy="epoch")
    sets: dict[str, Any] = {"train_dataset": Captions(), "eval_dataset": Captions(), "data_collator": collate}
    run = PlanningByName(model=tiny_clip(), args=args, **sets)
    run.train()
    assert run.bank is not None
    assert run.bank.coverage == 1


def test_each_training_has_a_bank_of_its_own_unless_one_is_given(tmp_path: Path) -> None:
    bank = bc.EmbeddingBank(N)
    for given, same in ((None, False), (bank, True)):
        run = trainer(tmp_path, options=NO_CHECKPOINTS, bank=given, **SHORT)
        banks = [bank]
        for _ in range(2):
            run.train()
            assert run.bank is not None
            banks.append(run.bank)
        assert (banks[1] is banks[2]) == same
        assert (banks[0] is banks[1]) == same


def test_a_trial_of_a_search_over_settings_has_its_own_checkpoints(tmp_path: Path) -> None:
    run: Any = trainer(tmp_path)
    state = TrainerState(global_step=5)
    assert checkpoint_of(run, state) == tmp_path / "checkpoint-5"
    run.hp_search_backend, run.hp_name, run._trial = HPSearchBackend.OPTUNA, None, SimpleNamespace(number=3)
    assert checkpoint_of(run, state) == tmp_path / "run-3" / "checkpoint-5"
