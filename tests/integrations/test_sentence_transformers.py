"""Planned batches for sentence-transformers, by real trainers in one process and in two."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st
from tests.integrations._runs import B, N, as_sets, flat, in_two_processes, rows_of
from tests.integrations._texts_run import Run, Seen, texts, tiny_model

import batchcut as bc
from batchcut.integrations import PlannedTexts
from batchcut.integrations._texts import groups_by_text

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


def test_the_plan_is_that_of_the_texts_encoded_before_the_epoch(tmp_path: Path) -> None:
    run = Run(tmp_path, options=ONE_EPOCH, selector=bc.Cut(temperature=0.05))
    seen = run.train()
    data = texts()
    u, v = (
        tiny_model(tmp_path / "fresh").encode(data[name], convert_to_tensor=True) for name in ("anchor", "positive")
    )
    plan = bc.Cut(temperature=0.05)(u, v, batch_size=B, seed=42, drop_last=False)
    assert as_sets(seen) == rows_of(plan)


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


def test_checkpoints_hold_the_plan_and_not_the_model(whole: tuple[Path, Run]) -> None:
    folder, run = whole
    state = json.loads((folder / "checkpoint-10" / "trainer_state.json").read_text())
    (kept,) = state["stateful_callbacks"]["batchcut"]
    assert (kept["epoch"], kept["position"], kept["made_in"]) == (1, 0, 1)
    assert pickle.loads(pickle.dumps(run.planned)) == "PlannedTexts(shuffled_epochs=0)"  # noqa: S301
    assert (folder / "checkpoint-10" / "training_args.bin").stat().st_size < 20_000


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


def test_evaluation_takes_the_rows_in_order(tmp_path: Path) -> None:
    evaluated = Dataset.from_dict(texts(20))
    run = Run(
        tmp_path, evaluated=evaluated, options={**ONE_EPOCH, "eval_strategy": "epoch", "per_device_eval_batch_size": B}
    )
    seen = run.train()
    assert flat(seen) == list(range(N))
    assert run.loss.evaluated == [list(range(8)), list(range(8, 16)), list(range(16, 20))]


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


def test_one_column_is_both_sides(tmp_path: Path) -> None:
    model = tiny_model(tmp_path)
    planned = PlannedTexts(model)
    planned.on_init_end(*[None] * 3)  # type: ignore[arg-type]
    data = Dataset.from_dict({"sentence": texts()["anchor"], "label": [0.5] * N})
    batches = planned(data, batch_size=B, drop_last=True, valid_label_columns=["label"], seed=3)
    batches.start()
    assert batches.planned is not None
    list(batches)
    assert torch.equal(batches.planned.bank.u, batches.planned.bank.v)
    assert len(batches) == N // B


def test_encode_gives_the_embeddings_instead(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    def encode(column: str, rows: list[str]) -> torch.Tensor:
        asked.append((column, len(rows)))
        return torch.randn(len(rows), 5, generator=torch.Generator().manual_seed(0))

    run = Run(tmp_path, options=ONE_EPOCH, encode=encode)
    run.train()
    assert asked == [("anchor", N), ("positive", N)]
    assert run.planned.samplers[0].bank.dim == 5


def test_shuffled_and_lasting_epochs_save_encoding(tmp_path: Path) -> None:
    asked: list[int] = []

    def encode(_: str, rows: list[str]) -> torch.Tensor:
        asked.append(len(rows))
        return torch.ones(len(rows), 5).cumsum(0)

    Run(
        tmp_path,
        options={"num_train_epochs": 5, "save_strategy": "no"},
        encode=encode,
        shuffled_epochs=1,
        replan_every=2,
    ).train()
    assert asked == [N, N, N, N]  # Two columns in epochs 1 and 3.


def test_encoding_leaves_the_mode_of_the_model(tmp_path: Path) -> None:
    model = tiny_model(tmp_path)
    for training in (True, False):
        model.train(training)
        PlannedTexts(model).embed("anchor", ["a1 w2"])
        assert model.training is training


def test_a_batch_sampler_without_its_callback_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="callbacks must hold the PlannedTexts that is the trainer's batch_sampler"):
        Run(tmp_path, options=ONE_EPOCH, called_back=False).train()


def test_a_callback_without_its_batch_sampler_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, options={**ONE_EPOCH, "batch_sampler": "batch_sampler"})
    with pytest.raises(ValueError, match="batch_sampler must be this PlannedTexts in the training arguments; got"):
        run.train()


@pytest.mark.parametrize("name", ["groups", "seed", "drop_last", "average_views", "nonsense"])
def test_settings_that_are_the_trainers_or_unknown_are_refused_at_once(tmp_path: Path, name: str) -> None:
    settings: dict[str, Any] = {name: 1}
    with pytest.raises(ValueError, match=f"^{name} must not be given here, where selector, .* can be; got 1$"):
        PlannedTexts(tiny_model(tmp_path), **settings)


def test_a_data_set_without_texts_is_refused(tmp_path: Path) -> None:
    planned = PlannedTexts(tiny_model(tmp_path))
    planned.on_init_end(*[None] * 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"train_dataset must have a column of texts; got \['label', 'x'\]"):
        planned(
            Dataset.from_dict({"x": [1, 2], "label": ["a", "b"]}),
            batch_size=2,
            drop_last=False,
            valid_label_columns=["label"],
        )


@given(st.lists(st.lists(st.integers(0, 12).map(str), min_size=1, max_size=3), min_size=1, max_size=20))
def test_groups_are_the_rows_that_a_chain_of_texts_joins(rows: list[list[str]]) -> None:
    slow = list(range(len(rows)))
    for _ in rows:  # Long enough for the smallest number to reach the end of any chain.
        slow = [min(slow[j] for j in range(len(rows)) if set(rows[i]) & set(rows[j])) for i in range(len(rows))]
    fast = groups_by_text(rows)
    assert [[a == b for b in slow] for a in slow] == [[a == b for b in fast] for a in fast]


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
