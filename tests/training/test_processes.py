"""Two processes over gloo."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests._launch import TORCHRUN, ended

from batchcut.selection import Cut
from batchcut.training import Config, ObjectiveSettings, OptimizerSettings, to_toml, train

from ._runs import environment, image_config, lines, outcome, pairs_config, plans, selecting, write_pairs

SCRIPT = Path(__file__).with_name("_two_processes.py")


def run_on_two(config: Config, run: Path, *, stop_at: int = -1) -> int:
    settings = run.with_suffix(".toml")
    settings.write_text(to_toml(config), encoding="utf-8")
    done = ended([*TORCHRUN, str(SCRIPT), str(run), str(settings), str(stop_at)], env=environment())
    assert done.returncode == 0 or stop_at >= 0, done.stderr[-3000:]
    return done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["infonce", "sogclr"])
def test_split_batches_equal_one_process(tmp_path: Path, loss: str) -> None:
    pairs = write_pairs(tmp_path / "pairs.npz")
    config = pairs_config(
        pairs,
        epochs=2,
        objective=ObjectiveSettings(loss=loss),  # type: ignore[arg-type]
        selection=selecting(Cut(), sharing="split"),
        optimizer=OptimizerSettings(name="sgd", learning_rate=0.1),
    )
    train(config, tmp_path / "one")
    run_on_two(config, tmp_path / "two")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-5)
    first, second = (lines(tmp_path / name, "step") for name in ("one", "two"))
    assert [event["step"] for event in first] == [event["step"] for event in second]
    assert [event["loss"] for event in second] == pytest.approx([event["loss"] for event in first], rel=1e-4)
    batches = [  # embeddings differ by rounding, which may exchange two places of a batch and nothing else
        [sorted(batch) for plan in plans(tmp_path / name) for batch in plan.batches.tolist()] for name in ("one", "two")
    ]
    assert batches[0] == batches[1]


@pytest.mark.slow
def test_whole_batches_train_score_and_resume(tmp_path: Path) -> None:
    config = image_config(epochs=3)
    run_on_two(config, tmp_path / "whole")
    assert len(lines(tmp_path / "whole", "evaluation")) == 3
    assert lines(tmp_path / "whole")[-2]["step"] == 9  # 96 samples in batches of 16 for each of two processes
    assert run_on_two(config, tmp_path / "stopped", stop_at=7) != 0
    assert not (tmp_path / "stopped" / "result.json").exists()
    run_on_two(config, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")
