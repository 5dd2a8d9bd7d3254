"""Distances are zero where they must be."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.report._folders import write_run

from batchcut.report import compare, read_run
from batchcut.report._geometry import geometries
from batchcut.report._samples import Samples
from batchcut.theory import simplex_etf


def test_an_etf_is_at_distance_zero_and_a_collapse_is_not(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "cut")
    etf = np.ascontiguousarray(simplex_etf(9, 8).numpy(), np.float32)  # as safetensors needs it
    collapsed = np.eye(8, dtype=np.float32)[np.zeros(9, int)]
    for name, rows in (("initial", collapsed), ("final", etf)):
        save_file({"index": np.arange(9), "u": rows, "v": rows}, folder / "embeddings" / f"{name}.safetensors")
    (found,) = geometries(compare([read_run(folder)]), Samples())
    assert found.samples == 9
    assert found.after.distance == pytest.approx(0, abs=1e-5)
    assert (found.after.own, found.after.others) == pytest.approx((1, found.optimal_others), abs=1e-6)
    assert (found.before.own, found.before.others) == pytest.approx((1, 1))
    assert found.before.distance == pytest.approx(np.sqrt(72) * (1 + 1 / 8), rel=1e-6)


def test_runs_without_embeddings_have_no_geometry(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "cut")
    (folder / "embeddings" / "initial.safetensors").unlink()
    assert geometries(compare([read_run(folder)]), Samples()) == []


def test_samples_that_an_untrained_encoder_maps_to_zero_are_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "cut")
    etf = np.ascontiguousarray(simplex_etf(9, 8).numpy(), np.float32)
    untrained = etf.copy()
    untrained[[0, 4]] = 0
    for name, rows in (("initial", untrained), ("final", etf)):
        save_file({"index": np.arange(9), "u": rows, "v": rows}, folder / "embeddings" / f"{name}.safetensors")
    (found,) = geometries(compare([read_run(folder)]), Samples())
    assert found.samples == 7
    save_file({"index": np.arange(9), "u": 0 * etf, "v": etf}, folder / "embeddings" / "initial.safetensors")
    assert geometries(compare([read_run(folder)]), Samples()) == []
