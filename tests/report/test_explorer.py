"""What the explorer shows is what the plan was made from."""

import base64
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.report._folders import BATCH, SAMPLES, TEMPERATURE, write_run

from batchcut.report import compare, read_run
from batchcut.report._explorer import contrastive_loss, explorer_data, shown_plans
from batchcut.report._samples import Samples
from batchcut.selection import pair_weights


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("explored") / "cut")


def test_the_loss_is_the_one_that_the_plan_gives(run: Path) -> None:
    shown = shown_plans(compare([read_run(run)]))
    assert [plan.plan.epoch for plan in shown] == [1, 2]
    kept = load_file(run / "embeddings" / "last-plan.safetensors")
    plan = shown[-1].plan
    for batch in shown[-1].batches:
        scores = kept["u"][batch.members] @ kept["v"][batch.members].T / TEMPERATURE
        assert batch.loss == pytest.approx(contrastive_loss(scores), rel=1e-4)
        if batch.number is not None:
            assert batch.loss == plan.losses[batch.number]


def test_weights_and_suspects_against_the_slow_way(run: Path) -> None:
    plan = shown_plans(compare([read_run(run)]))[-1]
    kept = load_file(run / "embeddings" / "last-plan.safetensors")
    for batch in plan.batches:
        u, v = (kept[side][batch.members].astype(float) for side in "uv")
        np.testing.assert_allclose(batch.weights, pair_weights(u, v, BATCH, TEMPERATURE), rtol=1e-5)
        for i in range(BATCH):
            for j in range(BATCH):
                alike = u[i] @ v[j] + u[j] @ v[i] >= u[i] @ v[i] + u[j] @ v[j]
                assert batch.suspects[i, j] == (alike and i != j)
    assert any(batch.suspects.any() for batch in plan.batches)


def test_batches_are_hardest_first_and_each_of_one_kind(run: Path) -> None:
    plan = shown_plans(compare([read_run(run)]))[-1]
    planned = [batch for batch in plan.batches if batch.number is not None]
    losses = [batch.loss for batch in planned]
    assert losses == sorted(losses, reverse=True)
    assert [batch.kind for batch in planned] == ["hardest"] * 4 + ["median"] * 4 + ["easiest"] * 4
    assert [batch.kind for batch in plan.batches[12:]] == ["shuffled"] * 2


def test_each_kind_begins_with_what_its_name_says(run: Path) -> None:
    plans = shown_plans(compare([read_run(run)]))
    shown = explorer_data(plans, Samples())[0]["plans"][-1]
    count = shown["count"]
    ranks: dict[str, list[int]] = {"hardest": [], "median": [], "easiest": []}
    for batch in shown["batches"]:
        if batch["number"] is not None:
            ranks[batch["kind"]].append(shown["ranks"][batch["number"]])
    assert ranks["hardest"] == sorted(ranks["hardest"])
    assert ranks["hardest"][0] == 1
    assert ranks["easiest"] == sorted(ranks["easiest"], reverse=True)
    assert ranks["easiest"][0] == count
    assert set(ranks["median"][:2]) == {count // 2, count // 2 + 1}


def test_samples_that_the_bank_has_not_seen_have_no_weight(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "cut")
    path = folder / "embeddings" / "last-plan.safetensors"
    kept = load_file(path)
    kept["u"][:5] = kept["v"][:5] = 0
    save_file(kept, path)
    plan = shown_plans(compare([read_run(folder)]))[-1]
    for batch in plan.batches:
        unseen = np.isin(batch.members, np.arange(5))
        assert (batch.weights[unseen] == 0).all()
        assert np.isfinite(batch.weights).all()


def test_packed_values_are_those_of_the_pairs(run: Path) -> None:
    plans = shown_plans(compare([read_run(run)]))
    pixels = np.zeros((SAMPLES, 1, 8, 8), np.uint8)
    data, sheet = explorer_data(plans, Samples(pixels=pixels, labels=np.arange(SAMPLES) % 10))
    assert data["samples"] == list(range(SAMPLES))
    assert sheet is not None
    assert sheet.columns * sheet.rows >= SAMPLES
    shown = data["plans"][1]
    batch, slow = shown["batches"][0], plans[1].batches[0]
    upper = np.triu_indices(BATCH, 1)
    weights = np.frombuffer(base64.b64decode(batch["weights"]), np.uint8) / 255 * shown["top"]
    np.testing.assert_allclose(weights, slow.weights[upper], atol=shown["top"] / 255)
    bits = np.unpackbits(np.frombuffer(base64.b64decode(batch["suspects"]), np.uint8))[: len(weights)]
    np.testing.assert_array_equal(bits.astype(bool), slow.suspects[upper])
    places = np.frombuffer(base64.b64decode(shown["place"]), "<u2")
    for number, members in enumerate(plans[1].plan):
        assert (places[members] == number + 1).all()


def test_fewer_batches_are_shown_where_thumbnails_are_heavy(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = shown_plans(compare([read_run(run)]))
    noise = np.random.default_rng(0).integers(0, 256, (SAMPLES, 3, 32, 32)).astype(np.uint8)
    samples = Samples(pixels=noise)
    everything, _ = explorer_data(plans, samples)
    monkeypatch.setattr("batchcut.report._explorer._MOST_BYTES", 60_000)
    few, sheet = explorer_data(plans, samples)
    assert sheet is not None
    assert len(sheet.address) < 60_000
    assert 0 < len(few["samples"]) < len(everything["samples"])
    monkeypatch.setattr("batchcut.report._explorer._MOST_BYTES", 10)
    assert explorer_data(plans, samples)[0]["samples"] == []
