"""`batchcut train`, called as a user does: what it prints, and what it says of bad input."""

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data._make import random_pixels, write_cifar100, write_picture
from tests.training._runs import outcome, write_pairs

from batchcut import cli
from batchcut.cli import _progress
from batchcut.cli._progress import Watcher
from batchcut.data._fetch import obtain_folder

SMALL = (
    "epochs=2",
    "batch_size=8",
    "model.width=16",
    "model.dim=8",
    "keeping.checkpoint_steps=5",
    "keeping.log_every=3",
)


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *map(str, words)])
    code = stop.value.code
    assert isinstance(code, int)
    return code


def refused(capsys: pytest.CaptureFixture[str], *words: object, code: int = 2) -> str:
    """What is said where the words are refused, or the work failed: one line, and nothing else."""
    assert run(*words) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("batchcut: ")
    assert said.err.count("\n") == 1, said.err
    return said.err


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"pairs:{write_pairs(tmp_path_factory.mktemp('pairs') / 'pairs.npz')}"


@pytest.fixture(scope="module")
def trained(pairs: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 24 steps with checkpoints of steps 20 and 24."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert run("--data", pairs, *SMALL, "-o", folder, "--quiet") == 0
    return folder


@pytest.fixture
def done(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be changed."""
    return shutil.copytree(trained, tmp_path / "done")


@pytest.mark.parametrize(
    ("words", "recipe"),
    [
        ((), "digits"),
        (("--data", "digits"), "digits"),
        (("--data", "functions"), "pairs"),
        (("data.name='pairs:x.npz'",), "pairs"),
        (("--data", "folder:photos"), "images"),
        (("--data", "cifar10"), "images"),
        (("--data", "folder:photos", "--recipe", "digits"), "digits"),
    ],
)
def test_the_recipe_follows_the_data(words: tuple[str, ...], recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words, "--show", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert run("--recipe", recipe, "--show", "--json") == 0
    named = json.loads(capsys.readouterr().out)
    assert shown | {"data": None} == named | {"data": None}


def test_images_of_many_sizes_are_said_to_be_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for row in range(12):
        write_picture(tmp_path / "images" / f"{row:02}.png", random_pixels(1, 3, 8 + row % 3, seed=row)[0])
    words = ("--data", f"folder:{tmp_path / 'images'}", "epochs=1", "batch_size=4", "model.width=2", "model.dim=4")
    assert run(*words, "-o", tmp_path / "run") == 0
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("recipe images, chosen by the data (--recipe names another, --show prints all settings): ")
    assert first.endswith(": 1 epoch, batches of 4, small-resnet")
    wanted = "images of 3 sizes, from 8 × 8 to 10 × 10, are scaled and their middle cut out, to 8 × 8"
    assert second == wanted


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "folder:nowhere"), "nowhere: no such folder; "),
        (("data.name='folder:nowhere'",), "nowhere: no such folder; "),
        (("--data", "pairs:nowhere.npz"), "nowhere.npz: no such file; "),
        (("--data", "pairs:u.npy,v.npy"), "u.npy: no such file; "),
        (("--config", "x.toml"), "nowhere: no such folder; "),
    ],
)
def test_data_that_are_not_there_are_missed_before_torch_is_loaded(
    words: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.toml").write_text("[data]\nname = 'folder:nowhere'\n")
    monkeypatch.setitem(sys.modules, "batchcut.training", None)  # which loads torch: to import it fails
    assert said in refused(capsys, *words)


def test_any_two_arrays_are_pairs(tmp_path: Path) -> None:
    image, text = np.random.default_rng(0).standard_normal((2, 60, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", image=image, text=text)
    np.savez(tmp_path / "y.npz", u=image, v=text)
    for name in "xy":
        words = ("--data", f"pairs:{tmp_path / name}.npz", *SMALL)
        assert run(*words, "-o", tmp_path / name, "--quiet") == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "xy"]
    assert weights[0] == weights[1]


def test_the_environment_names_the_data(trained: Path, pairs: str) -> None:
    assert [start["data"] for start in json.loads((trained / "environment.json").read_text())] == [pairs]


def test_a_table_at_the_end_and_a_line_for_each_evaluation(
    pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--data", pairs, *SMALL, "-o", tmp_path / "run") == 0
    said = capsys.readouterr()
    for expected in ("steps", "24", "top-1", "MRR", "median rank", "seconds planning"):
        assert expected in said.out
    opening, first, second = said.err.splitlines()
    assert opening.startswith("recipe pairs, chosen by the data")
    assert first.startswith("epoch 1, step 12: loss ")
    assert second.startswith("epoch 2, step 24: loss ")
    assert ["effective batch size" in line for line in (first, second)] == [False, True]


def test_json_and_nothing_else(pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--data", pairs, *SMALL, "-o", tmp_path / "run", "--json") == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert summary["steps"] == 24
    assert summary["scores"] == json.loads((tmp_path / "run" / "result.json").read_text())["scores"]
    assert all(line.startswith(("epoch ", "recipe ")) for line in said.err.splitlines())


def test_quiet_prints_nothing(pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--data", pairs, *SMALL, "-o", tmp_path / "run", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_an_interrupted_run_goes_on(
    done: Path, pairs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Impatient(Watcher):
        def __call__(self, event: Mapping[str, Any]) -> None:
            if event.get("step") == 17:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_progress, "Watcher", Impatient)
        assert run("--data", pairs, *SMALL, "-o", tmp_path / "it is stopped") == 130
    *_, first, second = capsys.readouterr().err.splitlines()
    assert first == "batchcut: interrupted; to go on from the last checkpoint:"
    program, verb, *words = shlex.split(second)
    assert (program, verb, words) == ("batchcut", "train", ["--resume", str(tmp_path / "it is stopped")])
    assert run(*words, "--quiet") == 0
    assert outcome(tmp_path / "it is stopped") == outcome(done)


def test_the_folder_of_an_interrupted_run_that_has_no_name(
    pairs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Impatient(Watcher):
        def __call__(self, event: Mapping[str, Any]) -> None:
            raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_progress, "Watcher", Impatient)
    assert run("--data", pairs, *SMALL, "seed=4") == 130
    assert capsys.readouterr().err.splitlines()[-1] == "batchcut train --resume runs/pairs-cut-4"
    shutil.rmtree("runs")
    monkeypatch.setattr("batchcut.training._run._load", _interrupted)
    assert run("--data", pairs, *SMALL, "seed=4") == 130  # before there is anything to go on with
    assert capsys.readouterr().err == "\nbatchcut: interrupted\n"


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_all_settings_as_toml_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("epochs=5", "--show", "optimizer.name=sgd") == 0
    text = capsys.readouterr().out
    assert run("epochs=5", "--show", "optimizer.name=sgd", "--json") == 0
    settings = json.loads(capsys.readouterr().out)
    assert settings == tomllib.loads(text)
    assert (settings["epochs"], settings["optimizer"]["name"]) == (5, "sgd")
    assert run("--show", "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_the_names_of_all_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--recipe", "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "digits" in lines
    assert run("--recipe", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == lines


def test_data_that_is_gone_when_a_run_goes_on(done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = done / "config.toml"
    text = re.sub(r'name = "pairs:[^"]*"', 'name = "cifar100"', path.read_text(encoding="utf-8"))
    path.write_text(text.replace('root = "none"', f'root = "{tmp_path}"'), encoding="utf-8")
    assert run("--resume", done) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "cifar-100-python is not there" in first
    assert f"{path}: data.name there says where its data are, data.root and data.download" in second
    path.write_text(re.sub(r'name = "cifar100"', 'name = "folder:not/here"', path.read_text(encoding="utf-8")))
    assert run("--resume", done) == 2
    assert capsys.readouterr().err.splitlines()[0].endswith("not/here: no such folder")


def empty(folder: Path) -> None:
    folder.mkdir()


def one_image(folder: Path) -> None:
    write_picture(folder / "only.png", random_pixels(1, 3, 8)[0])


def a_broken_image(folder: Path) -> None:
    for row in range(12):
        write_picture(folder / f"{row:02}.png", random_pixels(1, 3, 40, seed=row)[0])
    (folder / "07.png").write_bytes((folder / "07.png").read_bytes()[:300])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (empty, "must hold at least 2 images; got none"),
        (one_image, "must hold at least 2 images; got one, only.png"),
        (a_broken_image, "07.png must be a whole image; got one that fails: "),
    ],
)
def test_folders_that_cannot_be_learnt_from(
    make: Callable[[Path], None], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "images")
    assert message in refused(capsys, "--data", f"folder:{tmp_path / 'images'}", "-o", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda u: {"u": np.where(u > 2, np.nan, u), "v": u},
            "u must hold numbers that are finite in single precision",
        ),
        (lambda u: {"u": u, "v": 1e300 * u.astype(float)}, "v must hold numbers that are finite in single precision"),
        (lambda u: {"u": u, "v": u[:50]}, "v must have as many rows as u, 60; got 50"),
        (lambda u: {"u": u.astype(int), "v": u}, "u must hold floating-point numbers; got int64"),
        (lambda u: {"u": u[:5], "v": u[:5]}, "must hold at least 10 samples to be split; got 5"),
    ],
)
def test_pairs_that_cannot_be_learnt_from(
    change: Callable[[Any], dict[str, Any]], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "bad.npz", **change(np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)))
    assert message in refused(capsys, "--data", f"pairs:{tmp_path / 'bad.npz'}", "-o", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_official_files_that_are_missing_or_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--recipe", "cifar100-small", "--root", tmp_path, "-o", tmp_path / "run")
    assert "cifar-100-python is not there: --download (download=True) fetches 169 MB from " in (
        said := refused(capsys, *words)
    )
    assert "--root FOLDER (root=...) names the folder in which it lies" in said
    write_cifar100(tmp_path / "cifar-100-python")
    damaged = tmp_path / "cifar-100-python" / "train"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    assert "train must be a pickle of arrays and plain containers, undamaged; got " in refused(capsys, *words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("epoch=3", "recipe pairs: epoch is no setting; did you mean epochs? a run has the settings seed, epochs, "),
        ("epochs=many", "recipe pairs: epochs must be an integer; got 'many'"),
        ("epochs", "settings must have the form KEY=VALUE; got 'epochs'"),
        ("batch_size=97", "batch_size must be at most the number of training samples, 96; got 97"),
        (f"machine.devices={(os.cpu_count() or 1) + 1000}", "machine.devices must be at most the number of processors"),
        ("machine.accelerator=abacus", "machine.accelerator must be one that is here; got 'abacus': "),
    ],
)
def test_settings_that_cannot_be(
    setting: str, message: str, pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, "--data", pairs, "-o", tmp_path / "run", setting)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("rate", ["1e30", "1e12"])
def test_a_diverged_loss_is_said(rate: str, pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (f"optimizer.learning_rate={rate}", "optimizer.name=sgd", "optimizer.warmup_epochs=0")
    line = refused(capsys, "--data", pairs, *SMALL, *words, "--recipe", "pairs", "-o", tmp_path / "run", code=1)
    assert "training has diverged: an embedding is zero or not finite after step 1 in epoch 0; " in line
    assert "A lower optimizer.learning_rate" in line


@pytest.mark.parametrize("words", [("epochs=4",), ("--show",), ("-o", "elsewhere"), ("--download",)])
def test_a_run_is_gone_on_with_as_it_was_begun(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert "--resume goes on with a run as it was begun" in refused(capsys, "--resume", "RUN", *words)


def test_what_is_no_run_is_not_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        assert "run must be the folder of a run, with its config.toml; got" in refused(capsys, "--resume", place)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'name = "adamw"',
            'name = "sgd"',
            "must be of the settings in config.toml, but optimizer.name was 'adamw' and is now 'sgd': put config.toml",
        ),
        ("dim = 8", "dim = 9", "but model.dim was 8 and is now 9: "),
        ('method = "cut"', 'method = "shuffle"', "is no setting; remove it, or choose another: selection.selector has"),
        ("/pairs.npz", "/more.npz", "must fit config.toml and the data; "),
    ],
)
def test_other_settings_or_data_do_not_fit_the_checkpoint(
    old: str, new: str, message: str, done: Path, pairs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pairs(Path(pairs.removeprefix("pairs:")).with_name("more.npz"), samples=104)
    before = outcome(done)
    text = (done / "config.toml").read_text(encoding="utf-8")
    assert old in text
    (done / "config.toml").write_text(text.replace(old, new), encoding="utf-8")
    assert message in refused(capsys, "--resume", done)
    (done / "config.toml").write_text(text, encoding="utf-8")
    assert outcome(done) == before


def test_a_damaged_checkpoint_is_a_line_and_no_end(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = outcome(done)
    facts = done / "checkpoints" / "step-00000024.json"
    facts.write_text(facts.read_text(encoding="utf-8").replace('"epoch": 2', '"epoch": 1'), encoding="utf-8")
    (done / "checkpoints" / "step-copy.json").write_text("no checkpoint")
    with pytest.warns(
        RuntimeWarning,
        match=r"step-00000024\.json must be .*undamaged.*; got its checksum is another; going on from step 20",
    ):
        assert run("--resume", done, "--quiet") == 0
    assert outcome(done) == before


def test_folders_that_were_lost_come_back_and_a_damaged_record_is_named(
    done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("plans", "embeddings", "checkpoints"):
        for path in (done / folder).iterdir():
            path.unlink()
        (done / folder).rmdir()
    assert run("--resume", done, "--quiet") == 0
    assert len(list((done / "checkpoints").glob("*.json"))) == 2
    (done / "environment.json").write_text("{")
    (done / "result.json").unlink()  # a run that is finished is left as it is
    assert "environment.json must be JSON, undamaged, or be deleted" in refused(capsys, "--resume", done)


def test_warnings_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    assert run("--recipe", "list") == 0
    assert warnings.formatwarning("text", UserWarning, "file", 3) == "batchcut: warning: text\n"


def fetches(archive: Any, root: Path, *, download: bool, progress: Callable[[str, int, int], None]) -> Path:
    """What stands for a download."""
    assert download
    for done in (0, 500_000, 1_000_000):
        progress("cifar-100-python.tar.gz", done, 1_000_000)
    write_cifar100(root / "cifar-100-python", train=16, test=8)
    return obtain_folder(archive, root, download=False)


def test_a_download_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("batchcut.data._published.obtain_folder", fetches)
    words = ("--recipe", "cifar100-small", "--root", tmp_path, "--download", "-o", tmp_path / "run")
    assert run(*words, "epochs=1", "batch_size=8", "model.width=2", "model.dim=4") == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first == "fetching cifar-100-python.tar.gz, 1.0 MB"
    assert second.startswith("epoch 1, step 2: loss ")
