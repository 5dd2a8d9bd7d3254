"""What one step does with its gradients, and precision."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from batchcut.data import load
from batchcut.losses import contrastive_loss
from batchcut.selection import BatchPlan, Shuffle
from batchcut.training import MachineSettings, ObjectiveSettings, OptimizerSettings, SelectionSettings, resume, train
from batchcut.training._batches import Batches
from batchcut.training._data import Source, sources
from batchcut.training._model import Towers, build_model

from ._runs import lines, pairs_config, selecting, write_pairs

RATE = 0.5


def one_step(folder: Path, **changes: Any) -> tuple[Towers, dict[str, torch.Tensor], Source, list[Any]]:
    """The model before and after an epoch that is one step of SGD over 4 batches of 8, the set and the batches."""
    path = write_pairs(folder / "pairs.npz", samples=32)
    optimizer = OptimizerSettings(
        name="sgd", learning_rate=RATE, momentum=0.0, weight_decay=0.0, warmup_epochs=0, accumulate=4, **changes
    )
    config = pairs_config(path, epochs=1, optimizer=optimizer, selection=selecting(Shuffle()))
    assert train(config, folder / "run").steps == 1
    source, _ = sources(load(config.data.name), config.data, config.views)
    batches = Batches(config, samples=32, device=torch.device("cpu"), rank=0, world_size=1, views=False)
    before = build_model(config.model, seed=config.seed, inputs=source.inputs)
    epoch = batches.of_epoch(0, lambda _: None)
    return before, load_file(folder / "run" / "model.safetensors"), source, epoch.batches


def test_data_that_are_read_already_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = pairs_config(write_pairs(tmp_path / "pairs.npz"), epochs=1)
    split = load(config.data.name)
    scores = train(config, tmp_path / "read").scores

    def refuse(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr("batchcut.training._run._load", refuse)
    assert train(config, tmp_path / "given", split=split).scores == scores
    assert resume(tmp_path / "given", split=split).scores == scores


def test_accumulated_batches_make_one_step_by_their_mean_gradient(tmp_path: Path) -> None:
    model, after, source, batches = one_step(tmp_path)
    assert [len(batch) for batch in batches] == [8, 8, 8, 8]
    losses = [contrastive_loss(*model(*source.sides(b, torch.device("cpu"))), temperature=0.1) for b in batches]
    mean = torch.stack(losses).mean()
    mean.backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None
        torch.testing.assert_close(after[name], weight.detach() - RATE * weight.grad, rtol=1e-4, atol=1e-5)
    assert lines(tmp_path / "run", "step")[0]["loss"] == pytest.approx(float(mean.detach()), rel=1e-5)


def test_a_clipped_gradient_has_the_norm_asked_for(tmp_path: Path) -> None:
    model, after, _, _ = one_step(tmp_path, clip=0.01)
    moved = torch.cat([(after[name] - weight.detach()).flatten() for name, weight in model.named_parameters()])
    assert float(moved.norm()) == pytest.approx(RATE * 0.01, rel=1e-3)


def test_each_plan_is_logged_with_its_effective_size(tmp_path: Path) -> None:
    train(pairs_config(write_pairs(tmp_path / "pairs.npz"), epochs=3), tmp_path / "run")
    first, *planned = lines(tmp_path / "run", "plan")
    assert first["method"] == "Shuffle"
    assert "effective_size" not in first
    for event in planned:
        kept = BatchPlan.load(tmp_path / "run" / "plans" / f"epoch-{event['epoch']:04d}.npz").effective
        assert kept is not None
        assert event["effective_size"] == kept.facts
    assert len(planned) == 2


@pytest.mark.parametrize("loss", ["infonce", "simclr", "sogclr"])
def test_planned_epochs_have_a_background_that_can_be_turned_off(tmp_path: Path, loss: Any) -> None:
    path = write_pairs(tmp_path / "pairs.npz")
    for name, background in (("on", True), ("off", False)):
        settings = {"objective": ObjectiveSettings(loss=loss), "selection": SelectionSettings(background=background)}
        train(pairs_config(path, epochs=3, **settings), tmp_path / name)
    on, off = ([event["losses"] for event in lines(tmp_path / name, "losses")] for name in ("on", "off"))
    assert on[0] == off[0]
    assert (on[1:] != off[1:]) == (loss != "sogclr")


def test_mixed_precision_rounds_and_learns(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs.npz")
    whole = train(pairs_config(path), tmp_path / "whole")
    mixed = train(
        pairs_config(path, machine=MachineSettings(accelerator="cpu", precision="bf16-mixed")), tmp_path / "mixed"
    )
    exact, rounded = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "mixed"))
    assert all(weight.dtype == torch.float32 for weight in rounded.values())
    assert any(not torch.equal(exact[name], rounded[name]) for name in exact)
    first, second = (lines(tmp_path / name, "step")[0]["loss"] for name in ("whole", "mixed"))
    assert first != second
    assert second == pytest.approx(first, rel=0.05)
    assert mixed.scores["top1"] == pytest.approx(whole.scores["top1"], abs=0.2)
