"""A run that is killed and resumed ends as one that never stopped."""

import random
import shutil
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests._selectors import ByNumber

from batchcut.selection import Cut, Ordered, Shuffle
from batchcut.training import (
    Config,
    KeepingSettings,
    ObjectiveSettings,
    OptimizerSettings,
    _folder,
    resume,
    run_config,
    to_toml,
    train,
)

from ._runs import environment, image_config, lines, outcome, pairs_config, selecting, write_pairs

STEPWISE = Path(__file__).with_name("_stepwise.py")


class StopHereError(Exception):
    """What stands for a kill within one process."""


def stopped(config: Config, run: Path, *, step: int) -> None:
    """Trains until a step and stops there as an error would."""

    def observe(event: object) -> None:
        if isinstance(event, dict) and event["event"] == "progress" and event["step"] == step:
            raise StopHereError

    with pytest.raises(StopHereError):
        train(config, run, observe=observe)


def files(run: Path) -> dict[Path, bytes]:
    """All that is in the folder of a run."""
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.npz")


@pytest.mark.parametrize("step", [1, 5, 12, 13, 31, 48])
def test_goes_on_from_any_step(pairs: Path, tmp_path: Path, step: int) -> None:
    config = pairs_config(pairs)
    train(config, tmp_path / "whole")
    stopped(config, tmp_path / "stopped", step=step)
    resume(tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("step", [7, 11, 22])  # the last checkpoint: before the plan is begun, after, after once more
def test_goes_on_with_plans_made_ahead(pairs: Path, tmp_path: Path, step: int) -> None:
    config = pairs_config(pairs, selection=selecting(Cut(), plan_ahead=0.5))
    train(config, tmp_path / "whole")
    stopped(config, tmp_path / "stopped", step=step)
    resume(tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")
    train(pairs_config(pairs), tmp_path / "other")
    assert (tmp_path / "other" / "metrics.jsonl").read_bytes() != (tmp_path / "whole" / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"selection": selecting(Cut(), planned_from="pass")},
        {"selection": selecting(Cut(), planned_from="training-pass", replan_every=2)},
        {"selection": selecting(Ordered(k=3, q=2))},
        {"selection": selecting(Shuffle())},
        {"optimizer": OptimizerSettings(name="sgd", clip=1.0, accumulate=2)},
        {"objective": ObjectiveSettings(loss="simclr")},
    ],
)
def test_goes_on_with_images_whatever_the_settings(tmp_path: Path, changes: dict[str, object]) -> None:
    config = image_config(**changes)
    steps = train(config, tmp_path / "whole").steps
    stopped(config, tmp_path / "stopped", step=steps * 2 // 3)
    resume(tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


def test_the_outcome_would_show_a_difference(pairs: Path, tmp_path: Path) -> None:
    train(pairs_config(pairs), tmp_path / "one")
    train(pairs_config(pairs, seed=1), tmp_path / "other")
    one, other = outcome(tmp_path / "one"), outcome(tmp_path / "other")
    assert one.keys() == other.keys()
    assert not any(one[name] == other[name] for name in one)


def test_a_run_that_is_done_stays_as_it_is(pairs: Path, tmp_path: Path) -> None:
    result = train(pairs_config(pairs), tmp_path / "run")
    before = files(tmp_path / "run")
    assert resume(tmp_path / "run") == result
    assert files(tmp_path / "run") == before


def test_a_run_at_its_end_without_a_result_gets_one(pairs: Path, tmp_path: Path) -> None:
    result = train(pairs_config(pairs), tmp_path / "run")
    before = outcome(tmp_path / "run")
    for name in ("result.json", "model.safetensors"):
        (tmp_path / "run" / name).unlink()
    assert resume(tmp_path / "run").scores == result.scores
    assert (tmp_path / "run" / "result.json").is_file()
    assert outcome(tmp_path / "run") == before


@pytest.mark.parametrize(("step", "planning"), [(None, 4), (1, 4), (25, 4), (31, 5), (48, 5)])
def test_the_seconds_before_a_checkpoint_are_kept(
    pairs: Path, tmp_path: Path, step: int | None, planning: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each look at this clock takes a second, so that seconds count how often it was planned: once an epoch, and once
    # more where a run goes on within one.
    monkeypatch.setattr(_folder, "time", SimpleNamespace(perf_counter=count(1.0).__next__))
    if step is None:
        train(pairs_config(pairs), tmp_path / "run")
    else:
        stopped(pairs_config(pairs), tmp_path / "run", step=step)
    seconds = resume(tmp_path / "run").seconds
    assert seconds["planning"] == planning
    assert min(seconds.values()) > 0


def test_a_damaged_checkpoint_gives_way_to_the_one_before(pairs: Path, tmp_path: Path) -> None:
    config = pairs_config(pairs)
    train(config, tmp_path / "whole")
    stopped(config, tmp_path / "stopped", step=33)
    newest = max((tmp_path / "stopped" / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-10])
    with pytest.warns(
        RuntimeWarning,
        match="must be of an undamaged checkpoint; got .* bytes where .* were written; going on from step",
    ):
        resume(tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


def test_one_flipped_bit_is_found(pairs: Path, tmp_path: Path) -> None:
    stopped(pairs_config(pairs, keeping=KeepingSettings(checkpoints=1)), tmp_path / "run", step=20)
    (newest,) = (tmp_path / "run" / "checkpoints").glob("*.safetensors")
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    before = lines(tmp_path / "run")
    with pytest.raises(ValueError, match=r"must hold a checkpoint to go on from; got .*its checksum is another"):
        resume(tmp_path / "run")
    assert lines(tmp_path / "run") == before


def kill_and_resume(
    config: Config, folder: Path, *, moments: int, seed: int
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What comes of a run that is killed at random moments and resumed each time, and of one that is never killed."""
    (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")

    def start(run: str, place: int) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, str(STEPWISE), str(folder / run), str(folder / "config.toml"), str(place)]
        return subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)

    whole = start("whole", 0)
    assert whole.returncode == 0, whole.stderr
    places = int(whole.stdout.split()[1])
    rng, killed = random.Random(seed), 0  # noqa: S311 - moments, not secrets
    for _ in range(moments):
        # A run that has come far is begun again, so that late moments do not crowd out the early ones.
        attempt = start("killed", rng.randrange(1, places + 1))
        if attempt.returncode == 0:
            assert outcome(folder / "killed") == outcome(folder / "whole")
            shutil.rmtree(folder / "killed")
            attempt = start("killed", rng.randrange(1, places // 2))
        assert attempt.returncode == -signal.SIGKILL, attempt.stderr
        killed += 1
    last = start("killed", 0)
    assert last.returncode == 0, last.stderr
    assert killed == moments
    return outcome(folder / "killed"), outcome(folder / "whole")


@pytest.mark.slow
def test_killed_at_random_moments(pairs: Path, tmp_path: Path) -> None:
    killed, whole = kill_and_resume(pairs_config(pairs), tmp_path, moments=2, seed=1)
    assert killed == whole


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path: Path) -> None:
    killed, whole = kill_and_resume(replace(image_config(), epochs=5), tmp_path, moments=20, seed=2)
    assert killed == whole


def test_warns_of_nothing_where_all_is_well(pairs: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        train(pairs_config(pairs), tmp_path / "run")
    assert not told


def test_a_selector_of_ones_own_is_found_again(pairs: Path, tmp_path: Path) -> None:
    config = pairs_config(pairs, selection=selecting(ByNumber(seed=4)))
    train(config, tmp_path / "whole")
    stopped(config, tmp_path / "stopped", step=17)
    assert 'method = "tests._selectors:ByNumber"' in (tmp_path / "stopped" / "config.toml").read_text()
    assert run_config(tmp_path / "stopped") == config
    resume(tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


def test_a_selector_that_could_not_be_found_again_is_refused_before_the_first_step(pairs: Path, tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Local(ByNumber):
        pass

    for selector, text in (
        (Local(), r"selection\.selector must be of a class that can be imported, .*; got .*<locals>\.Local"),
        (ByNumber(seed=(1, 2)), r"ByNumber\.seed must be a number, a text, true or false, or None, .*; got tuple"),  # type: ignore[arg-type]
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            train(pairs_config(pairs, selection=selecting(selector)), tmp_path / "run")
        assert not (tmp_path / "run").exists()
