"""`batchcut reshard` and `batchcut select -o plan.parquet`, called as a user does."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.scale._shards import make_plan, samples_in, write_tars

from batchcut import cli
from batchcut.scale import read_plan_table


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(map(str, words)))
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_shards_are_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_plan(50, 4).save(tmp_path / "plan.npz")
    shards = write_tars(tmp_path, 20, 30)
    out = tmp_path / "out"
    assert run("reshard", tmp_path / "plan.npz", *shards, "-o", out, "--ranks", 5, "--batches-per-shard", 1) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"{out}/shard-{{000000..000009}}.tar",
        "10 batches of 4 in 10 shards, 40 samples",
        "2 batches left out, so that each of 5 processes has as many",
    ]
    assert run("reshard", tmp_path / "plan.npz", *shards, "-o", tmp_path / "more", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["shards"], found["batches"], found["samples"]) == (["shard-000000.tar"], [12], 48)
    assert len(list(samples_in(tmp_path / "more" / "shard-000000.tar"))) == 48
    assert run("reshard", tmp_path / "plan.npz", *shards, "-o", tmp_path / "still", "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_a_plan_becomes_a_table_and_then_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    u, v = np.random.default_rng(0).standard_normal((2, 24, 6)).astype(np.float32)
    np.savez(tmp_path / "x.npz", u=u, v=v)
    shards = write_tars(tmp_path, 10, 14)
    words = ["select", tmp_path / "x.npz", "--batch-size", 4, "--method", "shuffle", "--quiet"]
    assert run(*words, "-o", tmp_path / "plan.parquet", "--shards", *shards) == 0
    assert run(*words, "-o", tmp_path / "plan.npz", "--shards", *shards) == 2
    assert "--shards must be given with -o FILE.parquet; got" in capsys.readouterr().err
    assert run(*words, "-o", tmp_path / "other.parquet", "--shards", shards[0]) == 2
    assert "--shards must hold the 24 samples of which there are embeddings; got 10" in capsys.readouterr().err
    assert not (tmp_path / "other.parquet").exists()
    plan = read_plan_table(tmp_path / "plan.parquet")
    assert plan.effective is not None
    assert run("reshard", tmp_path / "plan.parquet", *shards, "-o", tmp_path / "out", "--order", "plan") == 0
    assert list(samples_in(tmp_path / "out" / "shard-000000.tar")) == plan.batches.ravel().tolist()
    assert run("reshard", tmp_path / "plan.parquet", *shards[::-1], "-o", tmp_path / "again") == 2
    assert "data-1.tar must be data-0.tar with 10 samples" in capsys.readouterr().err
