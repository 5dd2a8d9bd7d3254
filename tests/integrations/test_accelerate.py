"""Loaders for accelerate, by real accelerators in one process and in two."""

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from tests.integrations._accelerate_run import Run, Seen
from tests.integrations._runs import DIM, B, N, Pairs, as_sets, flat, in_two_processes, planned_in, replanned, rows_of
from torch.utils.data import DataLoader

import batchcut as bc
from batchcut.integrations import prepare_loader, sharding_of

# torchdata calls a function that torch has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")


def of_epoch(seen: Seen, epoch: int) -> list[list[int]]:
    return [index for at, index in seen if at == epoch]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_every_sample_once_an_epoch_in_batches_of_the_plan(workers: int) -> None:
    run = Run(leftover="short", workers=workers)
    seen = run.train()
    assert [flat(of_epoch(seen, epoch)) for epoch in range(3)] == [list(range(N))] * 3
    assert as_sets(of_epoch(seen, 2)) == rows_of(run.sampler.plan)
    assert as_sets(of_epoch(seen, 1)) != as_sets(of_epoch(seen, 2))


def test_epochs_go_on_without_set_epoch() -> None:
    run, told = Run(), Run().train()
    for epoch in range(3):
        for index, batch in run.loader:
            run.step(epoch, index, batch)
    assert run.seen == told


@pytest.mark.parametrize("step", [3, 6, 8, 12, 17], ids=["shuffled", "end", "planned", "second end", "last but one"])
def test_resume_by_skipping_batches(tmp_path: Path, step: int) -> None:
    seen = Run().train(save={step: tmp_path})
    assert Run().load(tmp_path).train(done=step) == seen[step:]


def test_the_bank_has_changed_since_the_plan_that_is_resumed(tmp_path: Path) -> None:
    seen = Run().train(save={8: tmp_path})
    state = torch.load(tmp_path / "custom_checkpoint_0.pkl", weights_only=True)
    assert (state["sampler"]["epoch"], state["sampler"]["position"]) == (1, 0)
    assert planned_in(state) == as_sets(of_epoch(seen, 1))
    assert planned_in(state) != replanned(state)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("step", [3, 8])
def test_resume_by_a_stateful_loader(tmp_path: Path, step: int, workers: int) -> None:
    config = DataLoaderConfiguration(use_stateful_dataloader=True)
    seen = Run(config=config, workers=workers).train(save={step: tmp_path})
    assert len(seen) == 18
    resumed = Run(config=config, workers=workers).load(tmp_path)
    assert resumed.train(done=step, stateful=True) == seen[step:]


def test_resume_at_the_end_of_an_epoch_without_set_epoch(tmp_path: Path) -> None:
    def rest(run: Run, epochs: range) -> Seen:
        for epoch in epochs:
            for index, batch in run.loader:
                run.step(epoch, index, batch)
        return run.seen

    first = Run()
    rest(first, range(2))
    first.accelerator.save_state(str(tmp_path))
    rest(first, range(2, 3))
    assert rest(Run().load(tmp_path), range(2, 3)) == first.seen[12:]


def test_what_is_gathered_from_the_last_batch_is_whole() -> None:
    """accelerate would cut N mod B rows from it as repeated ones, but nothing is repeated."""
    run = Run()
    sizes = [len(run.accelerator.gather_for_metrics(index)) for index, _ in run.loader]
    assert sizes == [B] * (N // B)


@pytest.mark.parametrize("mode", [None, "whole", "split"])
def test_sharding_of_one_process(mode: Any) -> None:
    assert sharding_of(Accelerator(cpu=True), mode=mode) == bc.Sharding(mode=mode or "whole")


def test_sharding_follows_split_batches() -> None:
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
    assert sharding_of(accelerator).mode == "split"


def test_another_sampler_is_refused() -> None:
    with pytest.raises(TypeError, match=r"loader.batch_sampler must be a PlannedBatchSampler; got BatchSampler"):
        prepare_loader(Accelerator(cpu=True), DataLoader(Pairs(), batch_size=B))


@pytest.mark.parametrize(
    ("config", "sharding", "text"),
    [
        (
            None,
            {"rank": 1, "world": 2},
            "must be of process 0 of 1, as sharding_of(accelerator) says; got Sharding(rank=1",
        ),
        (None, {"mode": "dealt"}, "must be 'whole' or 'split'"),
        ({"dispatch_batches": True}, {}, "dispatch_batches must be off"),
    ],
)
def test_what_does_not_fit_is_refused(config: dict[str, Any] | None, sharding: dict[str, Any], text: str) -> None:
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**config) if config else None)
    bank = bc.EmbeddingBank(N, DIM)
    sampler = bc.PlannedBatchSampler(bank, batch_size=B, sharding=bc.Sharding(**sharding))
    with pytest.raises(ValueError) as error:  # noqa: PT011
        prepare_loader(accelerator, DataLoader(Pairs(), batch_sampler=sampler))
    assert text in str(error.value)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return in_two_processes("tests.integrations._accelerate_run", tmp_path_factory.mktemp("accelerate"))


@pytest.mark.parametrize(("name", "used"), [("whole", 48), ("short", N), ("split", 48)])
def test_in_two_processes_each_sample_is_with_one(ranks: list[Any], name: str, used: int) -> None:
    for epoch in range(3):
        mine, theirs = (of_epoch(rank[name]["seen"], epoch) for rank in ranks)
        assert len(mine) == len(theirs) > 0
        together = flat(mine + theirs)
        assert len(set(together)) == len(together) == used


def test_in_two_processes_the_batches_are_those_of_the_plan(ranks: list[Any]) -> None:
    both = [batch for rank in ranks for batch in of_epoch(rank["whole"]["seen"], 2)]
    assert as_sets(both) == as_sets(ranks[0]["whole"]["plan"])


def test_in_two_processes_split_batches_gives_each_its_part(ranks: list[Any]) -> None:
    pairs = list(zip(*(of_epoch(rank["split"]["seen"], 2) for rank in ranks), strict=True))
    assert {len(part) for pair in pairs for part in pair} == {B // 2}
    assert as_sets(mine + theirs for mine, theirs in pairs) == as_sets(ranks[0]["split"]["plan"])


@pytest.mark.parametrize("name", ["whole", "short", "split"])
def test_in_two_processes_resume(ranks: list[Any], name: str) -> None:
    for rank in ranks:
        assert rank[name]["resumed"] == rank[name]["seen"][4:]


def test_in_two_processes_what_does_not_fit_is_refused(ranks: list[Any]) -> None:
    for place, rank in enumerate(ranks):
        assert f"must be of process {place} of 2, as sharding_of(accelerator) says" in rank["another process"]
        assert "must split batches, as split_batches=True asks" in rank["not split"]


@pytest.mark.parametrize("name", ["untold", "alone", "whole", "split"])
def test_in_two_processes_batches_are_not_shared_twice(ranks: list[Any], name: str) -> None:
    """accelerate itself would deal out once more what is each process's own, and lose the rest without a word."""
    text = (
        "sharding must not share batches that BatchSamplerShard deals out to 2 processes once more: prepare the loader "
        "by batchcut.integrations.prepare_loader(accelerator, loader), not by accelerator.prepare; got "
    )
    for rank in ranks:
        assert rank["left to accelerate"][name].startswith(text + ("None" if name == "untold" else "Sharding("))
        assert rank["left to accelerate"]["dealt"] == "none"


def test_in_two_processes_batches_that_the_first_sends_are_not_shared_twice(ranks: list[Any]) -> None:
    text = "sharding must not share batches that DataLoaderDispatcher deals out to 2 processes once more: "
    assert all(rank["dispatched"].startswith(text) for rank in ranks)
