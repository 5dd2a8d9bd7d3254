"""TensorBoard reads what a run writes for it."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.training._runs import pairs_config, write_pairs

from batchcut.training import Config, KeepingSettings, resume, train
from batchcut.training._tensorboard import scalars_of


def config_in(folder: Path, **changes: Any) -> Config:
    keeping = KeepingSettings(log_every=3, checkpoint_steps=5, embeddings=0, tensorboard=True)
    return pairs_config(write_pairs(folder / "pairs.npz"), keeping=keeping, **changes)


def shown(run: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would show, by names: steps and values."""
    board = EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    return {name: [(one.step, one.value) for one in board.Scalars(name)] for name in board.Tags()["scalars"]}


def written(run: Path, kind: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == kind]


def assert_complete(run: Path) -> None:
    """Each line of metrics is there once."""
    found = shown(run)
    losses: list[Any] = [(event["step"], pytest.approx(event["loss"])) for event in written(run, "step")]
    scores: list[Any] = [(event["step"], pytest.approx(event["top1"])) for event in written(run, "evaluation")]
    plans = [event for event in written(run, "plan") if "mean_loss" in event]
    assert found["train/loss"] == losses
    assert found["test/top1"] == scores
    assert len(plans) == 3
    assert [value for _, value in found["plan/loss"]] == pytest.approx([plan["mean_loss"] for plan in plans])
    assert [step for step, _ in found["plan/loss"]] == [12 * plan["epoch"] for plan in plans]
    assert {"plan/times_shuffled", "plan/effective_size", "train/learning_rate"} <= found.keys()


def test_losses_scores_and_plans_are_there(tmp_path: Path) -> None:
    train(config_in(tmp_path), tmp_path / "run")
    assert_complete(tmp_path / "run")


def test_steps_that_are_taken_again_are_shown_once(tmp_path: Path) -> None:
    stop = 29

    def observe(event: Any) -> None:
        if event.get("step") == stop:
            raise KeyboardInterrupt

    config = config_in(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", observe=observe)
    assert shown(tmp_path / "run")["train/loss"][-1][0] == 27
    resume(tmp_path / "run")
    assert_complete(tmp_path / "run")


def test_without_tensorboard_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(ImportError, match=r'pip install "batchcut\[tensorboard\]"'):
        train(config_in(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    plain = config_in(tmp_path)
    train(replace(plain, keeping=replace(plain.keeping, tensorboard=False)), tmp_path / "plain")
    assert not (tmp_path / "plain" / "tensorboard").exists()


def test_only_numbers_that_people_look_at() -> None:
    assert list(scalars_of({"event": "progress", "step": 3})) == []
    assert list(scalars_of({"event": "plan", "epoch": 0, "method": "Shuffle"})) == []
    event = {"event": "plan", "mean_loss": 3.0, "shuffled_loss": 1.5, "effective_size": {"size": 40.0}}
    expected = [("plan/loss", 3.0), ("plan/effective_size", 40.0), ("plan/times_shuffled", 2.0)]
    assert list(scalars_of(event)) == expected
