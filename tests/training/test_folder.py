"""What is kept of a plan to be looked at."""

from pathlib import Path

import numpy as np
import pytest
import torch

from batchcut.sampling import EmbeddingBank
from batchcut.selection import BatchPlan, Cut
from batchcut.training._folder import RunFolder, shown_embeddings


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
