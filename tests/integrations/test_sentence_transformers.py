"""Planned batches for sentence-transformers, by real trainers in one process and in two."""

import itertools
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import PartialState
from datasets import Dataset, DatasetDict, IterableDataset
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.sentence_transformer import losses
from tests.integrations._runs import B, N, as_sets, flat, in_two_processes, rows_of
from tests.integrations._texts_run import Run, Seen, texts, tiny_model

import batchcut as bc
from batchcut.integrations import PlannedTexts
from batchcut.integrations._sentence_transformers import BANK_FILE
from batchcut.integrations._texts import texts_of_rows

STEPS = 7
ONE_EPOCH = {"num_train_epochs": 1, "save_strategy": "no"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """A run of three epochs, with a checkpoint after each step."""
    folder = tmp_path_factory.mktemp("texts")
    run = Run(folder)
    run.train()
    return folder, run


def of_epoch(seen: Seen, epoch: int) -> Seen:
    return seen[epoch * STEPS : (epoch + 1) * STEPS]


def test_every_row_once_an_epoch_in_batches_of_the_plan(whole: tuple[Path, Run]) -> None:
    _, run = whole
    seen = run.loss.seen
    assert len(seen) == 3 * STEPS
    assert [flat(of_epoch(seen, epoch)) for epoch in range(3)] == [list(range(N))] * 3
    (sampler,) = run.planned.samplers
    assert as_sets(of_epoch(seen, 2)) == rows_of(sampler.plan)
    assert len({frozenset(as_sets(of_epoch(seen, epoch))) for epoch in range(3)}) == 3


def test_the_first_plan_is_that_of_the_texts_encoded_once(tmp_path: Path) -> None:
    run = Run(tmp_path, options=ONE_EPOCH, selector=bc.Cut(temperature=0.05))
    seen = run.train()
    data = texts()
    u, v = (
        tiny_model(tmp_path / "fresh").encode(data[name], convert_to_tensor=True) for name in ("anchor", "positive")
    )
    plan = bc.Cut(temperature=0.05)(u, v, batch_size=B, seed=42, drop_last=False)
    assert as_sets(seen) == rows_of(plan)


def test_the_first_epoch_is_shuffled_unless_there_are_embeddings(tmp_path: Path) -> None:
    given_or_not = (None, (torch.rand(N, 16), torch.rand(N, 16)))
    for number, (embeddings, expected) in enumerate(zip(given_or_not, (1, 0), strict=True)):
        run = Run(tmp_path / str(number), options={"max_steps": STEPS + 1, "save_strategy": "no"}, planned=False)
        planned = PlannedTexts(run.trainer, embeddings=embeddings)
        run.trainer.train()
        assert planned.sampler is not None
        assert planned.sampler.shuffled_epochs == expected


@pytest.mark.parametrize("options", [ONE_EPOCH, {"max_steps": STEPS, "save_strategy": "no"}])
def test_a_training_without_a_planned_epoch_warns(tmp_path: Path, options: dict[str, Any]) -> None:
    run = Run(tmp_path, options=options, shuffled_epochs=1)
    with pytest.warns(UserWarning, match="shuffled_epochs is 1 and the training ends before, so that nothing"):
        run.train()


@pytest.mark.filterwarnings("error:shuffled_epochs")
def test_accumulated_gradients_do_not_make_an_epoch_longer(tmp_path: Path) -> None:
    options = {"gradient_accumulation_steps": 3, "num_train_epochs": 2, "save_strategy": "no"}
    run = Run(tmp_path, options=options, shuffled_epochs=1)
    assert len(run.train()) == 2 * STEPS
    assert run.planned.samplers[0].plan is not None


def test_a_second_planned_texts_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with pytest.raises(ValueError, match=r"^trainer must be one that no other PlannedTexts plans for: make it anew; "):
        PlannedTexts(run.trainer)


def test_arguments_of_the_user_stay_as_they_are_and_so_does_the_model(tmp_path: Path) -> None:
    run = Run(tmp_path, options=ONE_EPOCH, planned=False)
    args = run.trainer.args
    planned = PlannedTexts(run.trainer, shuffled_epochs=0)
    run.trainer.train()
    assert run.trainer.args.batch_sampler is planned
    assert args.batch_sampler == "batch_sampler"  # so that another trainer, which nobody plans for, shuffles
    assert not list(run.model.children())[-1]._forward_hooks


def test_a_model_that_is_made_anew_is_recorded(tmp_path: Path) -> None:
    run = Run(tmp_path, options={"num_train_epochs": 2, "save_strategy": "no"}, shuffled_epochs=1)
    vars(run.trainer)["model_init"] = lambda: tiny_model(tmp_path / "model")
    run.trainer.train()
    assert run.planned.sampler is not None
    assert run.planned.sampler.bank.coverage == 1


@pytest.mark.parametrize("count", [2, B - 1, B + 1])
def test_few_rows_are_a_short_batch(tmp_path: Path, count: int) -> None:
    run = Run(tmp_path, data=Dataset.from_dict(texts(count)), options={"num_train_epochs": 2, "save_strategy": "no"})
    assert sorted(flat(run.train())) == sorted([*range(count), *range(count)])


def test_too_few_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^train_dataset must hold two rows or more; got 1$"):
        Run(tmp_path, data=Dataset.from_dict(texts(1)), options=ONE_EPOCH).train()


@pytest.mark.parametrize("shuffled_epochs", [0, 1])
@pytest.mark.filterwarnings("ignore:1 of the groups have more members")
@pytest.mark.filterwarnings("ignore:shuffled_epochs is 1")
def test_rows_that_must_meet_are_left_out_as_by_no_duplicates(tmp_path: Path, shuffled_epochs: int) -> None:
    data = texts()
    data["negative"] = ["w1 w2"] * 20 + [f"w3 a{i}" for i in range(20, N)]  # of seven batches, each can hold one
    run = Run(tmp_path, data=Dataset.from_dict(data), options=ONE_EPOCH, shuffled_epochs=shuffled_epochs)
    seen = run.train()
    assert len(seen) == STEPS
    assert max(sum(row < 20 for row in batch) for batch in seen) == 1
    assert len(flat(seen)) == N - 13
    keeping = Run(tmp_path, data=Dataset.from_dict(data), options=ONE_EPOCH, drop_conflicts=False, shuffled_epochs=0)
    assert flat(keeping.train()) == list(range(N))


def test_a_plan_is_harder_than_chance(whole: tuple[Path, Run]) -> None:
    (sampler,) = whole[1].planned.samplers
    assert sampler.plan is not None
    shuffled = bc.Shuffle(temperature=sampler.plan.temperature)(
        sampler.bank.u, sampler.bank.v, batch_size=B, drop_last=False
    )
    assert sampler.plan.mean_loss > 1.2 * shuffled.mean_loss


@pytest.mark.parametrize("step", [3, 7, 10, 20], ids=["first", "end", "second", "last but one"])
def test_resume_gives_the_same_remaining_batches(whole: tuple[Path, Run], tmp_path: Path, step: int) -> None:
    folder, run = whole
    assert Run(tmp_path).train(folder / f"checkpoint-{step}") == run.loss.seen[step:]


def test_resume_with_plans_made_ahead(whole: tuple[Path, Run], tmp_path: Path) -> None:
    run = Run(tmp_path / "whole", plan_ahead=0.5)
    seen = list(run.train())
    assert seen[STEPS:] != whole[1].loss.seen[STEPS:]
    for step in (9, 13):  # before the plan of the third epoch is begun, and after
        again = Run(tmp_path / str(step), plan_ahead=0.5)
        assert again.train(tmp_path / "whole" / f"checkpoint-{step}") == seen[step:]


def test_checkpoints_hold_the_plan_and_not_the_model(whole: tuple[Path, Run]) -> None:
    folder, _ = whole
    state = json.loads((folder / "checkpoint-10" / "trainer_state.json").read_text())
    (kept,) = state["stateful_callbacks"]["batchcut"]
    assert (kept["epoch"], kept["position"], kept["made_in"]) == (1, 0, 1)
    assert (folder / "checkpoint-10" / "training_args.bin").stat().st_size < 20_000
    (bank,) = torch.load(folder / "checkpoint-10" / BANK_FILE, weights_only=True)
    assert bank["u"].shape == (N, 16)


def test_rows_with_a_text_in_common_are_kept_apart(tmp_path: Path) -> None:
    data = texts()
    for row in range(0, 12, 2):
        data["anchor"][row + 1] = data["anchor"][row]
        data["positive"][row + 20] = data["anchor"][row]  # Across columns, too.
    shared = [{row, row + 1, row + 20} for row in range(0, 12, 2)]
    run = Run(tmp_path, data=Dataset.from_dict(data), options=ONE_EPOCH)
    run.train()
    plan = run.planned.samplers[0].plan
    assert plan is not None
    assert plan.group_pairs == 0
    assert flat(row.tolist() for row in plan) == list(range(N))
    assert max(len(set(row.tolist()) & rows) for row in plan for rows in shared) == 1


@pytest.mark.parametrize("sampler", ["batch_sampler", "no_duplicates"])
def test_evaluation_is_as_without_plans(tmp_path: Path, sampler: str) -> None:
    """By the batches that the arguments ask for: in the order of the rows, copies of a text would meet."""
    columns = {name: [text for text in column for _ in range(3)] for name, column in texts(20).items()}
    options = {
        **ONE_EPOCH,
        "learning_rate": 0.0,
        "eval_strategy": "epoch",
        "per_device_eval_batch_size": B,
        "batch_sampler": sampler,
    }
    runs = [
        Run(tmp_path / str(planned), evaluated=Dataset.from_dict(columns), options=options, planned=planned)
        for planned in (False, True)
    ]
    assert flat(runs[1].train()) == list(range(N))
    runs[0].train()
    assert runs[1].loss.evaluated == runs[0].loss.evaluated
    assert len(runs[1].loss.evaluated) > 1
    if sampler == "no_duplicates":
        assert all(len(set(batch)) == len(batch) for batch in runs[1].loss.evaluated)


def test_many_data_sets(tmp_path: Path) -> None:
    columns = texts()
    halves = {
        "first": Dataset.from_dict({name: column[:26] for name, column in columns.items()}),
        "second": Dataset.from_dict({name: column[26:] for name, column in columns.items()}),
    }
    run = Run(tmp_path, data=DatasetDict(halves), options={"num_train_epochs": 2})
    seen = run.train()
    assert flat(seen[:7]) == flat(seen[7:]) == list(range(N))
    plans = [sampler.plan for sampler in run.planned.samplers]
    second = {frozenset(row + 26 for row in batch) for batch in rows_of(plans[1])}
    assert as_sets(seen[7:]) == rows_of(plans[0]) | second
    again = Run(tmp_path / "again", data=DatasetDict(halves), options={"num_train_epochs": 2})
    assert again.train(tmp_path / "checkpoint-10") == seen[10:]
    fewer = Run(tmp_path / "fewer", data=DatasetDict({"first": halves["first"]}), options={"num_train_epochs": 9})
    with pytest.raises(
        ValueError, match="train_dataset must be as many data sets as those of the checkpoint, 2; got 1"
    ):
        fewer.train(tmp_path / "checkpoint-10")


def test_one_column_is_both_sides(tmp_path: Path) -> None:
    data = Dataset.from_dict({"sentence": texts()["anchor"], "label": [i % 3 for i in range(N)]})
    run = Run(tmp_path, data=data, options=ONE_EPOCH, loss=losses.BatchAllTripletLoss)
    run.trainer.train()
    assert run.planned.sampler is not None
    assert torch.equal(run.planned.sampler.bank.u, run.planned.sampler.bank.v)
    assert run.planned.sampler.bank.clock == 1 + STEPS


def test_the_mode_of_the_model_stays_where_it_encodes(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for training in (True, False):
        run.model.train(training)
        run.planned._embed([{"anchor": "a1 w2", "positive": "p1 w3"}])
        assert run.model.training is training


def test_only_a_trainer_with_a_data_set_is_planned_for(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^trainer must be a SentenceTransformerTrainer; got SentenceTransformer$"):
        PlannedTexts(tiny_model(tmp_path / "model"))  # type: ignore[arg-type]


def test_many_streams_are_refused(tmp_path: Path) -> None:
    rule = r"train_dataset\['b'\] must be a Dataset, as all in a DatasetDict; got IterableDataset"
    with pytest.raises(TypeError, match=rule):
        Run(tmp_path, data=DatasetDict(a=Dataset.from_dict(texts()), b=stream()))


def test_without_the_bank_of_a_checkpoint_all_is_encoded_again(whole: tuple[Path, Run], tmp_path: Path) -> None:
    shutil.copytree(whole[0] / "checkpoint-10", tmp_path / "checkpoint-10")
    (tmp_path / "checkpoint-10" / BANK_FILE).unlink()
    run = Run(tmp_path / "again")
    asked, embed = [], run.planned._embed
    run.planned._embed = lambda rows: (asked.append(len(rows)), embed(rows))[1]  # type: ignore[method-assign, func-returns-value]
    assert run.train(tmp_path / "checkpoint-10")[:4] == whole[1].loss.seen[10:14]
    assert asked == [N]


def stream(count: int = N, **columns: list[str]) -> IterableDataset:
    return Dataset.from_dict(texts(count) | columns).to_iterable_dataset()


def test_streams_are_planned_some_batches_at_a_time(tmp_path: Path) -> None:
    run = Run(tmp_path, data=stream(), options={"max_steps": 7, "save_strategy": "no", "logging_steps": 100})
    seen = run.train()
    assert flat(seen) == list(range(N))
    columns = texts()
    u, v = (tiny_model(tmp_path / "fresh").encode(columns[name]) for name in columns)
    plan = bc.Cut(temperature=0.05)(u, v, batch_size=B, seed=42, drop_last=False)
    assert as_sets(seen) == rows_of(plan)
    (logged,) = [entry for entry in run.trainer.state.log_history if "plan_loss" in entry]
    assert logged["plan_loss"] == pytest.approx(plan.mean_loss, rel=1e-4)
    assert run.trainer.args.batch_sampler == "batch_sampler"


def test_streams_keep_texts_apart(tmp_path: Path) -> None:
    third = [f"w{i % 25}" for i in range(N)]  # rows 25 apart have it in common
    seen = Run(tmp_path, data=stream(negative=third), options={"max_steps": 7, "save_strategy": "no"}).train()
    assert all(len({row % 25 for row in batch}) == len(batch) for batch in seen)


@pytest.mark.parametrize("step", [3, 9, 10, 14])
def test_a_stream_goes_on_with_the_same_batches_and_weights(tmp_path: Path, step: int) -> None:
    """In pools of ten batches: the plan of the pool under way is kept, later ones are made from the same weights."""
    options = {"max_steps": 16, "per_device_train_batch_size": 3}
    run = Run(tmp_path / "whole", data=stream(), options=options)
    seen = list(run.train())
    again = Run(tmp_path / "again", data=stream(), options=options)
    assert again.train(tmp_path / "whole" / f"checkpoint-{step}") == seen[step:]
    for one, other in zip(run.model.parameters(), again.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("settings", "options", "text"),
    [
        ({"replan_every": 2}, {}, "replan_every must be left out for an IterableDataset; got 2"),
        ({"embeddings": (1, 2)}, {}, "embeddings must be left out for an IterableDataset; got tuple"),
        (
            {},
            {"dataloader_num_workers": 1},
            "the process must be one without workers to plan an IterableDataset; got 1 w",
        ),
    ],
)
def test_what_streams_do_not_have_is_refused(tmp_path: Path, settings: Any, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Run(tmp_path, data=stream(), options={"max_steps": 2} | options, **settings)


def test_arguments_come_back_and_are_attached_again(whole: tuple[Path, Run], tmp_path: Path) -> None:
    folder, run = whole
    args = torch.load(folder / "checkpoint-10" / "training_args.bin", weights_only=False)
    assert repr(args.batch_sampler) == repr(run.planned) == "PlannedTexts(shuffled_epochs=0)"
    model = tiny_model(tmp_path / "model")
    PartialState()  # which arguments make when they are new
    args.output_dir = str(tmp_path)
    trainer = SentenceTransformerTrainer(
        model, args, train_dataset=Dataset.from_dict(texts()), loss=losses.MultipleNegativesRankingLoss(model)
    )
    with pytest.raises(
        ValueError, match=r"batch_sampler must be attached to the trainer, by attach\(trainer\); got Pla"
    ):
        trainer.train()
    args.batch_sampler.attach(trainer)
    trainer.train()
    assert args.batch_sampler.sampler.plan is not None


def test_settings_are_pickled(tmp_path: Path) -> None:
    run = Run(tmp_path, selector=bc.Cut(pool=5), temperature=0.2, replan_every=2, dtype=torch.float16)
    back = pickle.loads(pickle.dumps(run.planned))  # noqa: S301
    assert isinstance(back, PlannedTexts)
    assert (back.settings, back.options) == (run.planned.settings, run.planned.options)


def test_one_that_is_not_attached_is_refused_among_callbacks(tmp_path: Path) -> None:
    run = Run(tmp_path, options=ONE_EPOCH, planned=False)
    run.trainer.add_callback(PlannedTexts())
    with pytest.raises(ValueError, match=r"^callbacks must be attached to the trainer, by attach\(trainer\); got Pla"):
        run.train()


def test_another_batch_sampler_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, options=ONE_EPOCH)
    run.trainer.args.batch_sampler = "batch_sampler"
    with pytest.raises(ValueError, match="batch_sampler must be this PlannedTexts in the training arguments; got"):
        run.trainer.train()


@pytest.mark.parametrize("name", ["groups", "seed", "drop_last", "average_views", "nonsense"])
def test_settings_that_are_the_trainers_or_unknown_are_refused_at_once(name: str) -> None:
    settings: dict[str, Any] = {name: 1}
    with pytest.raises(ValueError, match=f"^{name} must not be given here, where selector, .* can be; got 1$"):
        PlannedTexts(**settings)


def test_a_data_set_without_texts_is_refused(tmp_path: Path) -> None:
    data = Dataset.from_dict({"x": [1, 2], "label": ["a", "b"]})
    with pytest.raises(ValueError, match=r"train_dataset must have a column of texts or images; got \['label', 'x'\]"):
        Run(tmp_path, data=data, options=ONE_EPOCH).train()


def test_images_are_told_apart_by_what_they_hold() -> None:
    pixels = [[0, 1], [0, 1], [2, 3]]
    table = texts_of_rows([["a", np.array(pixels[0])], ["b", np.array(pixels[1])], ["c", np.array(pixels[2])]])
    assert (table @ table.T).toarray().tolist() == [[2, 1, 0], [1, 2, 0], [0, 0, 2]]


@given(st.lists(st.lists(st.integers(0, 12).map(str), min_size=1, max_size=3), min_size=2, max_size=20))
def test_rows_are_in_conflict_where_they_hold_one_text(rows: list[list[str]]) -> None:
    table = texts_of_rows(rows).toarray() > 0
    for i, j in itertools.combinations(range(len(rows)), 2):
        assert bool(set(rows[i]) & set(rows[j])) == bool((table[i] & table[j]).any())


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return in_two_processes("tests.integrations._texts_run", tmp_path_factory.mktemp("two"))


def test_in_two_processes_each_row_is_with_one(ranks: list[Any]) -> None:
    for epoch in range(3):
        mine, theirs = (rank["seen"][3 * epoch : 3 * (epoch + 1)] for rank in ranks)
        assert len(mine) == len(theirs) == 3
        together = flat(mine + theirs)
        assert len(set(together)) == len(together) == 48  # The trainer itself asks for equal batches here.


def test_in_two_processes_the_batches_are_those_of_the_plan(ranks: list[Any]) -> None:
    assert as_sets(batch for rank in ranks for batch in rank["seen"][6:]) == as_sets(ranks[0]["plan"])


def test_in_two_processes_resume(ranks: list[Any]) -> None:
    for rank in ranks:
        assert len(rank["resumed"]) == 5
        assert rank["resumed"] == rank["seen"][4:]


def test_the_losses_of_all_steps_are_logged_beside_plans(tmp_path: Path) -> None:
    run = Run(tmp_path, options={"num_train_epochs": 2, "save_strategy": "no", "logging_steps": 1}, shuffled_epochs=1)
    run.train()
    logged = run.trainer.state.log_history
    assert [entry["step"] for entry in logged if "loss" in entry] == list(range(1, 2 * STEPS + 1))
    assert any("plan_loss" in entry for entry in logged)


def test_split_batches_in_many_processes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, options={"accelerator_config": {"split_batches": True}, **ONE_EPOCH}, planned=False)
    monkeypatch.setattr(type(run.trainer.args), "world_size", 2)
    with pytest.raises(ValueError, match=r"^accelerator_config must have split_batches=False: planned batches differ"):
        PlannedTexts(run.trainer)


def test_a_bank_in_half_precision_under_autocast(tmp_path: Path) -> None:
    options = {"num_train_epochs": 3, "save_strategy": "no", "bf16": True}
    run = Run(tmp_path, options=options, dtype=torch.float16, shuffled_epochs=1)
    assert len(run.train()) == 3 * STEPS
    assert run.planned.samplers[0].bank.coverage == 1
