"""`batchcut evaluate` of a run that was trained for it, called as a user does."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from batchcut import cli
from batchcut.data._corrupted import _NINETEEN


def run(verb: str, *words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([verb, *map(str, words)])
    code = stop.value.code
    assert isinstance(code, int)
    return code


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "digits"
    sizes = ("epochs=1", "data.train=256", "data.test=60")
    assert run("train", *sizes, "-o", folder, "--quiet") == 0
    return folder


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    u = rng.standard_normal((200, 6)).astype(np.float32)
    np.savez(folder / "pairs.npz", u=u, v=u @ rng.standard_normal((6, 6)).astype(np.float32))
    settings = ("--recipe", "pairs", "--data", f"pairs:{folder / 'pairs.npz'}", "epochs=1")
    assert run("train", *settings, "-o", folder / "run", "--quiet") == 0
    return folder / "run"


def test_the_score_is_that_of_the_run_itself(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", digits, "--draws", 2, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    wanted = json.loads((digits / "result.json").read_text())
    for name in ("top1", "top10", "mrr", "mean_rank"):
        assert found["retrieval"][name] == pytest.approx(wanted["scores"][name], abs=1e-9)
    assert (found["step"], found["test"], found["data"]) == (wanted["steps"], 60, "digits")


def test_everything_in_a_table_and_a_file(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--corrupted", "made", "--severity", 2, "--classes", "--test", 20, "-o", tmp_path / "scores.json")
    assert run("evaluate", digits, *words) == 0
    printed = capsys.readouterr().out
    for text in ("20 test samples", "retrieval", "among 19 corruptions", "±", "by neighbours", "by a linear probe"):
        assert text in printed
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["corrupted"]["set"] == "digits corrupted here, severity 2"
    assert scores["corrupted"]["candidates"] == 19
    assert 0 < scores["corrupted"]["top1"] < 1
    assert scores["classes"]["knn"] > 0.3


def test_a_published_set(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "CIFAR-100-C").mkdir()
    for name in _NINETEEN:
        pixels = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
        np.save(tmp_path / "CIFAR-100-C" / f"{name}.npy", pixels)
    words = ("--corrupted", "cifar100-c", "--root", tmp_path, "--draws", 1, "--json")
    assert run("evaluate", digits, *words) == 0
    assert json.loads(capsys.readouterr().out)["corrupted"]["set"] == "cifar100-c, severity 1"


def test_features(features: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", features, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    wanted = json.loads((features / "result.json").read_text())["scores"]
    assert found["retrieval"]["top1"] == pytest.approx(wanted["top1"], abs=1e-9)
    assert found["test"] == 40
    for flags in (("--classes",), ("--corrupted", "made")):
        assert run("evaluate", features, *flags) == 2
        assert f"{flags[0]} must be left alone where the data are features" in capsys.readouterr().err


def test_quiet_prints_nothing(features: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", features, "--quiet") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--step", 7), "batchcut: --step must be that of a checkpoint ("),
        (("--severity", 6), "--severity must be at most 5; got 6"),
        (("--severity", 3), "--severity must be left alone without --corrupted; got 3"),
        (("--root", "x"), "--root must be left alone where the data are digits; got x"),
        (("--draws", 0), "--draws must be at least 1; got 0"),
        (("--device", "gpu"), "--device must be cpu, cuda, cuda:1, mps or the like; got 'gpu'\n"),
        (("-o", "/"), "--out must be a file; got /, a folder"),
        (("-o", "no/where.json"), "--out must lie in a folder that is there"),
        (
            ("--corrupted", "cifar100-c", "--root", "/nonexistent"),
            "CIFAR-100-C is not there: --download (download=True) fetches",
        ),
    ],
)
def test_bad_input(words: tuple[object, ...], text: str, digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", digits, *words) == 2
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_here(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", digits, "--device", "cuda") == 2
    said = capsys.readouterr().err
    assert said == "batchcut: --device must be one that is here and that torch is built for; got 'cuda'\n"


def test_a_folder_that_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", tmp_path) == 2
    assert "RUN must be the folder of a run, with its config.toml; got" in capsys.readouterr().err
