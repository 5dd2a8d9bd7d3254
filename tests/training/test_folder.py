"""What is kept of a plan to be looked at, and what of a run's folder is the run's to remove."""

from pathlib import Path

import numpy as np
import pytest
import torch

from batchcut.sampling import EmbeddingBank
from batchcut.selection import BatchPlan, Cut
from batchcut.training._folder import Lines, RunFolder, shown_embeddings


@pytest.fixture(scope="module")
def filled() -> tuple[BatchPlan, EmbeddingBank]:
    """A plan of 16 batches of 4, and the bank that it was made from, in which two samples are missing."""
    bank = EmbeddingBank(64, 8)
    draw = torch.Generator().manual_seed(0)
    u, v = (torch.nn.functional.normalize(torch.randn(64, 8, generator=draw), dim=1) for _ in range(2))
    plan = Cut()(u, v, batch_size=4, seed=0)
    bank.record(torch.arange(62), u[:62], v[:62])
    return plan, bank


def test_hardest_median_easiest_and_shuffled_batches_are_kept(filled: tuple[BatchPlan, EmbeddingBank]) -> None:
    plan, bank = filled
    kept = shown_embeddings(plan, bank, most=32)
    order = np.argsort(plan.losses)
    wanted = {*order[:2], *order[7:9], *order[-2:]}
    assert set(kept["batches"].tolist()) == wanted
    assert kept["shuffled"].shape == (2, 4)
    assert kept["shuffled"].max() < 62
    used = {*plan.batches[sorted(wanted)].ravel().tolist(), *kept["shuffled"].ravel().tolist()}
    assert kept["index"].tolist() == sorted(used)
    torch.testing.assert_close(kept["u"], bank.u[kept["index"]].half())


def test_all_batches_are_kept_where_there_is_room(filled: tuple[BatchPlan, EmbeddingBank]) -> None:
    plan, bank = filled
    assert shown_embeddings(plan, bank, most=1000)["batches"].tolist() == list(range(16))


@pytest.mark.parametrize(("shown", "kept"), [(0, set()), (32, {"first-plan.safetensors", "last-plan.safetensors"})])
def test_none_is_kept_where_none_is_wanted(
    filled: tuple[BatchPlan, EmbeddingBank], shown: int, kept: set[str], tmp_path: Path
) -> None:
    for name in ("plans", "embeddings"):
        (tmp_path / name).mkdir()
    folder = RunFolder(tmp_path)
    folder.save_plan(filled[0], filled[1], shown=shown)
    assert folder.plans() == ["epoch-0000.npz"]
    assert {path.name for path in (tmp_path / "embeddings").iterdir()} == kept


def test_only_plans_of_the_run_are_dropped(tmp_path: Path) -> None:
    plans = tmp_path / "plans"
    plans.mkdir()
    thesis = tmp_path / "thesis.npz"
    thesis.write_text("years")
    for name in ("epoch-0000.npz", "epoch-0001.npz", "epoch-10000.npz", "notes.txt", "epoch-best.npz", "epoch-1.npz"):
        (plans / name).touch()
    (plans / "epoch-0002.npz").symlink_to(thesis)
    (plans / "epoch-0003.npz").mkdir()
    RunFolder(tmp_path).drop_plans(but=["epoch-0000.npz"])
    kept = {"epoch-0000.npz", "epoch-0003.npz", "notes.txt", "epoch-best.npz", "epoch-1.npz"}
    assert {path.name for path in plans.iterdir()} == kept
    assert thesis.read_text() == "years"


@pytest.mark.parametrize("name", ["plans", "checkpoints", "embeddings"])
def test_a_linked_folder_is_refused(tmp_path: Path, name: str) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    elsewhere.mkdir()
    (run / name).symlink_to(elsewhere)
    text = rf"^{run / name} must be a folder of the run itself; got a link to {elsewhere}$"
    with pytest.raises(ValueError, match=text):
        RunFolder(run).open()


def test_nothing_is_cut_through_a_link(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis"
    thesis.write_text("years")
    for name in ("lock", "metrics.jsonl"):
        (tmp_path / name).symlink_to(thesis)
    with pytest.raises(OSError, match=r"a link, where a file must be: '.*lock'$"):
        RunFolder(tmp_path).open()
    with pytest.raises(OSError, match=r"a link, where a file must be: '.*metrics.jsonl'$"):
        Lines(tmp_path / "metrics.jsonl", length=0)
    assert thesis.read_text() == "years"
