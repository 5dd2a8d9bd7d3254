"""The Lightning callback, by real trainers in one process and in two."""

import csv
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from tests.integrations._lightning_run import Model, Seen, fit, trainer
from tests.integrations._runs import B, N, Pairs, as_sets, flat, in_two_processes, planned_in, replanned, rows_of

import batchcut as bc
from batchcut.integrations import PlanningCallback

pytestmark = [
    # Lightning uses a class of torch that torch has deprecated.
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec.. is deprecated:FutureWarning"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seen]:
    """A run of three epochs, with a checkpoint after each step."""
    folder = tmp_path_factory.mktemp("lightning")
    return folder, fit(folder=folder, drop_last=False)[0]


def of_epoch(seen: Seen, epoch: int) -> list[list[int]]:
    return [index for at, _, index in seen if at == epoch]


def test_every_sample_once_an_epoch_in_batches_of_the_plan() -> None:
    seen, planning = fit(drop_last=False, seed=3)
    assert [flat(of_epoch(seen, epoch)) for epoch in range(3)] == [list(range(N))] * 3
    assert as_sets(of_epoch(seen, 2)) == rows_of(planning.sampler.plan)
    assert as_sets(of_epoch(seen, 1)) != as_sets(of_epoch(seen, 2))
    assert [position for _, position, _ in seen] == list(range(7)) * 3


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_the_bank_holds_the_embeddings_of_each_sample(workers: int) -> None:
    model, data = Model(lr=0.0), Pairs()
    loader = bc.PlannedLoader(data, batch_size=B, drop_last=False, num_workers=workers)
    trainer(PlanningCallback(loader), max_epochs=2).fit(model, loader)
    with torch.no_grad():
        torch.testing.assert_close(loader.bank.u, model.encoder(data.x))
        torch.testing.assert_close(loader.bank.v, model.encoder(data.y))


@pytest.mark.parametrize("step", [3, 7, 10, 14, 20], ids=["shuffled", "end", "planned", "second end", "last but one"])
def test_resume_gives_the_same_remaining_batches(whole: tuple[Path, Seen], step: int) -> None:
    folder, seen = whole
    assert fit(resume=folder / f"{step}.ckpt", drop_last=False)[0] == seen[step:]


def test_the_bank_has_changed_since_the_plan_that_is_resumed(whole: tuple[Path, Seen]) -> None:
    folder, seen = whole
    loops = torch.load(folder / "10.ckpt", weights_only=True)["loops"]
    (state,) = loops["fit_loop"]["state_dict"]["combined_loader"]
    assert (state["sampler"]["epoch"], state["sampler"]["position"]) == (1, 3)
    assert planned_in(state) == as_sets(of_epoch(seen, 1))
    assert planned_in(state) != replanned(state, drop_last=False)


@pytest.mark.parametrize(
    "options",
    [
        {"limit_train_batches": 5},
        {"max_epochs": -1, "max_steps": 18},
        {"accumulate_grad_batches": 2},
    ],
    ids=["fewer batches", "by steps", "accumulated"],
)
def test_resume_with_other_ends(tmp_path: Path, options: dict[str, Any]) -> None:
    seen, _ = fit(folder=tmp_path, options=options)
    assert len(seen) == {5: 15, None: 18}[options.get("limit_train_batches")]
    assert fit(resume=tmp_path / "8.ckpt", options=options)[0] == seen[8:]


@pytest.mark.slow
def test_resume_with_workers_that_read_ahead(tmp_path: Path) -> None:
    seen, _ = fit(folder=tmp_path, workers=2)
    assert fit(resume=tmp_path / "8.ckpt", workers=2)[0] == seen[8:]


def test_resume_from_a_checkpoint_at_the_end_of_an_epoch(tmp_path: Path) -> None:
    class SaveAtTheEnd(pl.Callback):
        def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            trainer.save_checkpoint(tmp_path / f"epoch{trainer.current_epoch}.ckpt")

    first, second = (bc.PlannedLoader(Pairs(), batch_size=B, replan_every=2) for _ in range(2))
    model, again, path = Model(), Model(), str(tmp_path / "epoch1.ckpt")
    trainer(PlanningCallback(first), SaveAtTheEnd(), max_epochs=4).fit(model, first)
    trainer(PlanningCallback(second), max_epochs=4).fit(again, second, ckpt_path=path)
    assert again.seen == model.seen[12:]


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
def test_a_checkpoint_that_is_validated_leaves_the_loader_alone(tmp_path: Path) -> None:
    class Validated(Model):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.encoder(batch[0])

    loader = bc.PlannedLoader(Pairs(), batch_size=B)
    run = trainer(PlanningCallback(loader), folder=tmp_path, max_epochs=3)
    run.fit(Model(), loader)
    clock, epoch = loader.bank.clock, loader.epoch
    data = torch.utils.data.DataLoader(Pairs(), batch_size=B, num_workers=0)
    run.validate(Validated(), data, ckpt_path=str(tmp_path / "6.ckpt"), verbose=False)
    assert (loader.bank.clock, loader.epoch) == (clock, epoch)


def test_a_data_module_may_give_the_loader(tmp_path: Path) -> None:
    class Data(pl.LightningDataModule):
        def train_dataloader(self) -> Any:
            return planning.loader

    def run(**options: Any) -> Seen:
        model = Model()
        trainer(planning, folder=tmp_path / "a", max_epochs=2, reload_dataloaders_every_n_epochs=1).fit(
            model, datamodule=Data(), **options
        )
        return model.seen

    planning = PlanningCallback(bc.PlannedLoader(Pairs(), batch_size=B))
    seen = run()
    assert len(seen) == 12
    assert as_sets(of_epoch(seen, 1)) == rows_of(planning.sampler.plan)
    (tmp_path / "a").rename(tmp_path / "b")
    planning = PlanningCallback(bc.PlannedLoader(Pairs(), batch_size=B))
    assert run(ckpt_path=str(tmp_path / "b" / "9.ckpt")) == seen[9:]


class _Returns(Model):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.value(super().training_step(batch, batch_idx))


@pytest.mark.parametrize(
    "value", [lambda out: out["loss"], lambda out: {"loss": out["loss"], "u": out["u"]}], ids=["loss alone", "no v"]
)
def test_a_step_must_return_the_embeddings(value: Any) -> None:
    planning = PlanningCallback(bc.PlannedLoader(Pairs(), batch_size=B))
    text = "the return value of training_step must be a dictionary with 'loss' and the embeddings of the batch"
    with pytest.raises(ValueError, match=f"{text}, 'u' and 'v'; got a dictionary with .'loss'"):
        trainer(planning, max_epochs=1).fit(_Returns(value), planning.loader)


def test_another_loader_is_refused() -> None:
    planning = PlanningCallback(bc.PlannedLoader(Pairs(), batch_size=B))
    with pytest.raises(
        ValueError, match=r"train_dataloaders must be the loader of the PlanningCallback; got .*DataLoader"
    ):
        trainer(planning, max_epochs=1).fit(Model(), torch.utils.data.DataLoader(Pairs(), batch_size=B, num_workers=0))


def test_bad_settings() -> None:
    loader = bc.PlannedLoader(Pairs(), batch_size=B)
    with pytest.raises(ValueError, match="mode must be 'whole' or 'split'; got 'dealt'"):
        PlanningCallback(loader, mode="dealt")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="loader must be a PlannedLoader; got Pairs"):
        PlanningCallback(Pairs())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return in_two_processes("tests.integrations._lightning_run", tmp_path_factory.mktemp("ddp"))


@pytest.mark.parametrize("name", ["whole", "short"])
def test_in_two_processes_each_rank_gets_other_batches(ranks: list[Any], name: str) -> None:
    for epoch in range(3):
        mine, theirs = (of_epoch(rank[name]["seen"], epoch) for rank in ranks)
        assert len(mine) == len(theirs) > 0
        together = flat(mine + theirs)
        assert len(set(together)) == len(together) == (48 if name == "whole" else N)


def test_in_two_processes_the_batches_of_both_ranks_are_those_of_the_plan(ranks: list[Any]) -> None:
    both = [batch for rank in ranks for batch in of_epoch(rank["whole"]["seen"], 2)]
    assert as_sets(both) == as_sets(ranks[0]["whole"]["plan"])


def test_in_two_processes_each_rank_gets_its_part_of_each_batch(ranks: list[Any]) -> None:
    parts = zip(*(of_epoch(rank["split"]["seen"], 2) for rank in ranks), strict=True)
    pairs = list(parts)
    assert {len(part) for pair in pairs for part in pair} == {B // 2}
    assert as_sets(mine + theirs for mine, theirs in pairs) == as_sets(ranks[0]["split"]["plan"])


def test_in_two_processes_resume(ranks: list[Any]) -> None:
    for rank in ranks:
        assert rank["resumed"] == rank["whole"]["seen"][4:]


def test_in_two_processes_a_sampler_that_was_told_nothing_is_refused(ranks: list[Any]) -> None:
    for place, rank in enumerate(ranks):
        assert rank["default"] == (
            "TypeError: bank must be an EmbeddingBank; a framework that makes batch samplers anew around a sampler of "
            "its own must leave this one alone (in Lightning by use_distributed_sampler=False); got DistributedSampler"
        )
        text = f"say which of the 2 processes this is, as Sharding(rank={place}, world_size=2) does"
        assert rank["left alone"] == f"ValueError: sharding must {text}; got None"


def test_settings_reach_the_sampler() -> None:
    _, planning = fit(selector=bc.Shuffle(), seed=5, shuffled_epochs=0, options={"max_epochs": 1})
    assert (planning.sampler.selector, planning.sampler.seed, planning.sampler.shuffled_epochs) == (bc.Shuffle(), 5, 0)


def test_the_figures_of_each_plan_are_logged(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path, flush_logs_every_n_steps=1)
    fit(options={"logger": logger, "log_every_n_steps": 1})
    with (Path(logger.log_dir) / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["plan_loss"]]
    assert len(rows) == 2  # the first epoch is shuffled
    assert all(float(row["plan_times_shuffled"]) > 1 and float(row["plan_effective_size"]) > 1 for row in rows)
    assert {"plan_seconds", "plan_conflicts", "plan_suspected_false_negatives", "plan_bank_age"} <= rows[0].keys()
