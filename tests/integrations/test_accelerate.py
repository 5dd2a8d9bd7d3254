"""Loaders for accelerate, by real accelerators in one process and in two."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from tests.integrations._accelerate_run import Run, Seen
from tests.integrations._runs import B, N, Pairs, as_sets, flat, in_two_processes, planned_in, replanned, rows_of
from torch.utils.data import DataLoader

import batchcut as bc
from batchcut.integrations import prepare_loader, sharding_of

# torchdata calls a function that torch has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")


def of_epoch(seen: Seen, epoch: int) -> list[list[int]]:
    return [index for at, index in seen if at == epoch]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_every_sample_once_an_epoch_in_batches_of_the_plan(workers: int) -> None:
    run = Run(drop_last=False, workers=workers)
    seen = run.train()
    assert [flat(of_epoch(seen, epoch)) for epoch in range(3)] == [list(range(N))] * 3
    assert as_sets(of_epoch(seen, 2)) == rows_of(run.loader.plan)
    assert as_sets(of_epoch(seen, 1)) != as_sets(of_epoch(seen, 2))


def test_epochs_go_on_without_set_epoch() -> None:
    assert Run().train(told=False) == Run().train()


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("told", [True, False], ids=["set_epoch", "by itself"])
@pytest.mark.parametrize("step", [3, 6, 8, 12, 17], ids=["shuffled", "end", "planned", "second end", "last but one"])
def test_resume(tmp_path: Path, step: int, told: bool, workers: int) -> None:
    seen = Run(workers=workers).train(save={step: tmp_path}, told=told)
    assert len(seen) == 18
    assert Run(workers=workers).load(tmp_path).train(told=told) == seen[step:]


def test_the_bank_has_changed_since_the_plan_that_is_resumed(tmp_path: Path) -> None:
    seen = Run().train(save={8: tmp_path})
    state = torch.load(tmp_path / "custom_checkpoint_0.pkl", weights_only=True)
    assert (state["sampler"]["epoch"], state["sampler"]["position"]) == (1, 2)
    assert planned_in(state) == as_sets(of_epoch(seen, 1))
    assert planned_in(state) != replanned(state)


@pytest.mark.parametrize("step", [3, 8])
def test_resume_where_accelerate_has_stateful_loaders(tmp_path: Path, step: int) -> None:
    config = DataLoaderConfiguration(use_stateful_dataloader=True)
    seen = Run(config=config).train(save={step: tmp_path})
    assert Run(config=config).load(tmp_path).train() == seen[step:]


def test_resume_between_two_epochs_without_set_epoch(tmp_path: Path) -> None:
    first = Run()
    first.train(epochs=2, told=False)
    first.accelerator.save_state(str(tmp_path))
    first.train(told=False)
    assert Run().load(tmp_path).train(told=False) == first.seen[12:]


@pytest.mark.parametrize("step", [3, 6, 8])
def test_a_run_that_has_gone_further_goes_back(tmp_path: Path, step: int) -> None:
    run = Run()
    seen = list(run.train(save={step: tmp_path}))
    run.load(tmp_path).seen.clear()
    assert [batch for _, batch in run.train()][:3] == [batch for _, batch in seen[step : step + 3]]


def test_what_is_gathered_from_the_last_batch_is_whole() -> None:
    """accelerate would cut N mod B rows from it as repeated ones, but nothing is repeated."""
    run = Run()
    sizes = [len(run.accelerator.gather_for_metrics(own)) for _, _, own in run.loader]
    assert sizes == [B] * (N // B)


@pytest.mark.parametrize("mode", [None, "whole", "split"])
def test_sharding_of_one_process(mode: Any) -> None:
    assert sharding_of(Accelerator(cpu=True), mode=mode) == bc.Sharding(mode=mode or "whole")


def test_sharding_follows_split_batches() -> None:
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
    assert sharding_of(accelerator).mode == "split"


def test_another_loader_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^loader must be a PlannedLoader; got DataLoader$"):
        prepare_loader(Accelerator(cpu=True), DataLoader(Pairs(), batch_size=B))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "text"),
    [({"dispatch_batches": True}, "dispatch_batches must be off"), ({"split_batches": True}, "mode must be 'split'")],
)
def test_what_does_not_fit_is_refused(config: dict[str, Any], text: str) -> None:
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**config))
    with pytest.raises(ValueError, match=text):
        prepare_loader(accelerator, bc.PlannedLoader(Pairs(), batch_size=B), mode="whole")


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


def test_in_two_processes_batches_that_are_shared_twice_are_told(ranks: list[Any]) -> None:
    """accelerate itself would deal out once more what is each process's own, and lose the rest without a word."""
    for rank in ranks:
        (told,) = rank["dealt twice"]
        assert re.match(r"of 24 samples drawn in the last epoch \d+ were recorded: .* batchcut.integrations", told)
