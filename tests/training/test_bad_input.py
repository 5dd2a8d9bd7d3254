"""What goes wrong is said clearly, without a traceback, and nothing is lost."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from batchcut.training import DivergedError, OptimizerSettings, config_of, read_toml, resume, to_toml, train
from batchcut.training._folder import Lock
from batchcut.training._toml import parse_toml, with_overrides

from ._runs import batchcut, environment, lines, pairs_config, write_pairs


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.npz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch = 3", "file: epoch is no setting; did you mean epochs? a run has the settings seed, epochs, "),
        (
            "[optimizer]\nrate = 1",
            "file: optimizer.rate is no setting; remove it, or choose another: optimizer has the settings name, ",
        ),
        ('epochs = "3"', "file: epochs must be an integer; got '3'"),
        ("epochs = 3.5", "file: epochs must be an integer; got 3.5"),
        ("epochs = true", "file: epochs must be an integer; got True"),
        ("epochs = 0", "file: epochs must be at least 1; got 0"),
        ("optimizer = 3", "file: optimizer must be a table of settings; got 3"),
        ("[objective]\ntemperature = 1e308", "file: objective.temperature must be between 1e-06 and 1e+06; got 1e+308"),
        ("[objective]\ntemperature = inf", "file: objective.temperature must be "),
        ("[objective]\ntemperature = nan", "file: objective.temperature must be "),
        ('[data]\ntrain = "many"', "file: data.train must be an integer or \"none\"; got 'many'"),
        (
            '[objective]\nloss = "hinge"',
            "file: objective.loss must be one of 'simclr', 'sogclr', ",
        ),
        ('[selection.selector]\nmethod = "best"', "file: selection.selector.method must be one of 'shuffle', "),
        (
            '[selection.selector]\nmethod = "no.such:Thing"',
            "file: selection.selector.method must name a class that ",
        ),
        (
            '[selection.selector]\nmethod = "math:pi"',
            "file: selection.selector.method must name a dataclass ",
        ),
        ('[selection.selector]\nmethod = "cut"\nq = 3', "file: selection.selector.q is no setting"),
        ('[selection.selector]\nmethod = "ordered"', "file: k must be given unless exact=True; got None"),
    ],
)
def test_a_wrong_setting_is_named(text: str, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        config_of(parse_toml(text, source="file"), source="file")
    assert str(caught.value).startswith(message)


def test_what_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("epochs = = 3")
    with pytest.raises(ValueError, match=r"config.toml must be TOML; .*line 1"):
        read_toml(tmp_path / "config.toml")


def test_another_method_drops_the_settings_of_the_old() -> None:
    tree = parse_toml('[selection.selector]\nmethod = "ordered"\nk = 5', source="file")
    changed = with_overrides(tree, {"selection.selector.method": "cut", "selection.selector.pool": "4"})
    assert changed["selection"]["selector"] == {"method": "cut", "pool": 4}


def test_a_folder_in_use_is_left_alone(pairs: Path, tmp_path: Path) -> None:
    train(pairs_config(pairs, epochs=1), tmp_path / "run")
    holder = Lock(tmp_path / "run" / "lock")
    with pytest.raises(ValueError, match=rf"run is in use by another process, {os.getpid()} on "):
        resume(tmp_path / "run")
    holder.release()
    resume(tmp_path / "run")


def test_a_folder_with_a_run_is_not_begun_again(pairs: Path, tmp_path: Path) -> None:
    train(pairs_config(pairs, epochs=1), tmp_path / "run")
    before = lines(tmp_path / "run")
    with pytest.raises(ValueError, match="run must be a new or empty folder; --resume goes on with one; got"):
        train(pairs_config(pairs, epochs=1), tmp_path / "run")
    assert lines(tmp_path / "run") == before


def test_a_run_that_was_killed_as_it_began_is_begun_again(pairs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "lock").touch()
    (run / ".config.toml.0123abcd.unfinished").write_text("seed = ")
    train(pairs_config(pairs, epochs=1), run)
    assert not (run / ".config.toml.0123abcd.unfinished").exists()


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"run must be the folder of a run, with its config.toml; got"):
        resume(tmp_path)


def test_a_diverged_loss_is_said_and_checkpoints_stay(pairs: Path, tmp_path: Path) -> None:
    config = pairs_config(pairs, optimizer=OptimizerSettings(name="sgd", learning_rate=1e38, warmup_epochs=0))
    with pytest.raises(DivergedError, match=r"training has diverged: .* A lower optimizer.learning_rate, now 1e\+38"):
        train(config, tmp_path / "run")
    assert (tmp_path / "run" / "config.toml").exists()


@pytest.mark.slow
def test_a_diverged_loss_is_no_wrong_use(pairs: Path, tmp_path: Path) -> None:
    words = ("optimizer.name=sgd", "optimizer.learning_rate=1e38", "optimizer.warmup_epochs=0", "batch_size=16")
    done = batchcut("train", "--data", f"pairs:{pairs}", "-o", str(tmp_path / "run"), *words)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("batchcut: training has diverged: ")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_unknown_data_set_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    done = batchcut("train", "--data", "cifar1000", "-o", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "data.name must be one of digits, functions, fashion-mnist, cifar10, cifar100," in done.stderr
    assert not (tmp_path / "run").exists()


def test_too_large_a_batch_is_refused(pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch_size must be at most the number of training samples, 96; got 97"):
        train(pairs_config(pairs, batch_size=97), tmp_path / "run")


@pytest.mark.slow
def test_an_encoder_for_images_takes_no_features(pairs: Path, tmp_path: Path) -> None:
    done = batchcut("train", "--recipe", "digits", "--data", f"pairs:{pairs}", "-o", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "batchcut: model.encoder must be one of 'mlp' or 'linear' for features; got 'small-resnet'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_missing_and_damaged_data_are_said_without_a_traceback(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "damaged.npz").write_bytes(pairs.read_bytes()[:500])
    for name in ("absent.npz", "damaged.npz"):
        done = batchcut("train", "--recipe", "pairs", "--data", f"pairs:{tmp_path / name}", "-o", str(tmp_path / "run"))
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("batchcut: ")
        assert name in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "run").exists()


def test_features_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs.npz")
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["train_u"][3, 2] = np.nan
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="finite"):
        train(pairs_config(path), tmp_path / "run")


@pytest.mark.slow
def test_a_full_disk_is_said_and_the_run_goes_on_with_more_room(pairs: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None:
        pytest.skip("there is no mount here")
    words = [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        (tmp_path / "config.toml").write_text(to_toml(pairs_config(pairs)), encoding="utf-8")
        done = batchcut("train", "--config", str(tmp_path / "config.toml"), "-o", str(disk / "run"), "--quiet")
        assert done.returncode == 1
        assert ": No space left on device; make room and try again" in done.stderr
        assert done.stderr.startswith(f"batchcut: {disk / 'run'}")
        if (disk / "run" / "config.toml").exists():
            assert f"batchcut train --resume {disk / 'run'}" in done.stderr
        assert "Traceback" not in done.stderr
        subprocess.run([mount, "-o", "remount,size=8m", str(disk)], check=True)
        done = batchcut("train", "--resume", str(disk / "run"), "--quiet")
        assert done.returncode == 0, done.stderr
        assert lines(disk / "run")[-1]["event"] == "evaluation"
    finally:
        subprocess.run([unmount, str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("lines_read", [0, 1])
def test_a_training_goes_on_when_nobody_reads_its_errors_any_more(pairs: Path, tmp_path: Path, lines_read: int) -> None:
    (tmp_path / "config.toml").write_text(to_toml(pairs_config(pairs)), encoding="utf-8")
    words = ["train", "--config", str(tmp_path / "config.toml"), "-o", str(tmp_path / "run")]
    command = [sys.executable, "-m", "batchcut", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    assert process.stderr is not None
    for _ in range(lines_read):
        assert process.stderr.readline().startswith(("epoch ", "at work: "))  # which is told after a second
    process.stderr.close()
    printed = process.stdout.read()
    process.stdout.close()
    assert process.wait() == 0
    assert "top-1" in printed
    assert (tmp_path / "run" / "result.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_a_training_goes_on_without_streams(pairs: Path, tmp_path: Path, stream: str) -> None:
    (tmp_path / "config.toml").write_text(to_toml(pairs_config(pairs)), encoding="utf-8")
    words = ["train", "--config", str(tmp_path / "config.toml"), "-o", str(tmp_path / "run")]
    command = ["sh", "-c", f'exec "$@" {stream}', "sh", sys.executable, "-m", "batchcut", *words]
    assert subprocess.run(command, env=environment(), check=False).returncode == 0
    assert (tmp_path / "run" / "result.json").is_file()
