"""The benchmark of images: variants do what they say, and figures follow from runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import images
from benchmarks.loops import image_variants as images_variants
from benchmarks.loops.image_variants import InGroups, Renorm, anchors_loss, by_running_statistics
from benchmarks.loops.runs import measured_run
from benchmarks.pages import images_report
from torch import Tensor, nn
from torch.nn.functional import normalize

from batchcut.data import Images, Split
from batchcut.losses import Background, nt_xent
from batchcut.sampling import _background
from batchcut.selection import Cut
from batchcut.training import Config, ModelSettings, train
from batchcut.training._model import build_model

TAU = 0.1
TRAIN, SIDE, BATCH = 96, 8, 32


@pytest.fixture(scope="module")
def split() -> Split:
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 256, (6, 3, SIDE, SIDE))[rng.integers(6, size=TRAIN + images.VALIDATION)]
    pixels = np.clip(kinds + rng.integers(-60, 60, kinds.shape), 0, 255).astype(np.uint8)
    pictures = Images("made up", pixels, None)
    return Split(pictures, pictures.take(slice(0, 40)))


def tiny(variant: str, epochs: int = 3) -> Config:
    """A variant of the recipe, with a smaller encoder."""
    config = images.config_for(variant, Path("nowhere"), seed=3, epochs=epochs)
    model = replace(config.model, width=8, projection=16, dim=40)
    scoring = replace(config.evaluation, statistics=64, draws=1)
    return replace(config, model=model, data=replace(config.data, train=TRAIN), evaluation=scoring)


def unit(*shape: int, seed: int) -> Tensor:
    return normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_validation_images_are_neither_trained_nor_tested_on(split: Split) -> None:
    inner = images.without_test(split, TRAIN)
    assert isinstance(split.train, Images)
    assert isinstance(inner.train, Images)
    assert isinstance(inner.test, Images)
    assert (len(inner.train), len(inner.test)) == (TRAIN, images.VALIDATION)
    assert np.array_equal(np.concatenate([inner.train.pixels, inner.test.pixels]), split.train.pixels)


@pytest.mark.parametrize("variant", ["shuffled", "Cut"])
def test_the_loop_is_that_of_the_library(split: Split, variant: str) -> None:
    config = tiny(variant)
    plain = measured_run(config, split=images.without_test(split, TRAIN))
    assert images.run(variant, split, config)["top1"] == plain["top1"]


@pytest.mark.slow
def test_each_variant_trains_in_its_own_way(split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_variants, "_WARM_UP", TRAIN // BATCH)
    monkeypatch.setattr(_background, "share_of", lambda *_: torch.tensor(0.1))  # not as the embeddings happen to agree
    losses = {}
    some = Split(split.train.take(slice(0, TRAIN)), split.test)
    for place, (name, variant) in enumerate(images.VARIANTS.items()):
        with images.varied(variant):
            train(tiny(name), tmp_path / str(place), split=some)
        lines = (tmp_path / str(place) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        told = [event["losses"] for event in map(json.loads, lines) if event["event"] == "losses"]
        assert [len(epoch) for epoch in told] == 3 * [TRAIN // BATCH]
        losses[name] = tuple(told[-1])
    same = {"shuffled, width 32": "shuffled", "Cut, width 32": "Cut"}  # all are of one width here
    assert all(losses.pop(name) == losses[other] for name, other in same.items())
    assert len(set(losses.values())) == len(losses), "two variants do the same"


def test_a_run_tells_of_its_plans_and_of_the_background(split: Split) -> None:
    planned, shuffled = (images.run(variant, split, tiny(variant)) for variant in ("Cut", "shuffled"))
    assert planned["effective_size"] > 1
    assert planned["background"]["asked"] == 2 * (TRAIN // BATCH) >= planned["background"]["drawn"]
    assert -1 <= planned["background"]["agreement"] <= 1
    assert shuffled["effective_size"] is shuffled["background"] is None


def test_the_loss_of_all_anchors_is_that_of_simclr() -> None:
    u, v = unit(6, 5, seed=0), unit(6, 5, seed=1)
    torch.testing.assert_close(anchors_loss(u, v, 6, TAU), nt_xent(u, v, temperature=TAU))


def test_further_negatives_without_gradient_are_seen_as_those_with_it() -> None:
    u, v = unit(10, 5, seed=0), unit(10, 5, seed=1)
    beside = Background(u=u[4:], v=v[4:], share=images_variants.NO_BOUND, largest_weight=1.0)
    seen = nt_xent(u[:4], v[:4], temperature=TAU, background=beside)
    torch.testing.assert_close(seen, anchors_loss(u, v, 4, TAU))


@pytest.mark.parametrize("planned", [1.0, 0.5])
def test_groups_are_those_of_cut_among_random_samples(planned: float) -> None:
    u, v = unit(TRAIN, 8, seed=0).numpy(), unit(TRAIN, 8, seed=1).numpy()
    selector = InGroups(size=16, planned=planned)
    plan = selector(u, v, batch_size=BATCH, seed=3, epoch=1, temperature=TAU)
    assert np.array_equal(np.sort(plan.batches.ravel()), np.arange(TRAIN))
    hard = plan.batches[:, : round(planned * BATCH)]
    chosen = np.random.default_rng([2, 3, 1]).permutation(TRAIN)[: hard.size]
    groups = chosen[Cut()(u[chosen], v[chosen], batch_size=16, seed=3, epoch=1, temperature=TAU).batches]
    assert {frozenset(group) for group in hard.reshape(-1, 16).tolist()} == {frozenset(g) for g in groups.tolist()}


def test_running_statistics_make_embeddings_independent_of_the_batch() -> None:
    norm = Renorm(3, momentum=0.01)
    norm.steps = images_variants._WARM_UP
    norm.running_mean, norm.running_var = torch.tensor([0.1, -0.2, 0.3]), torch.tensor([1.5, 0.7, 1.0])
    norm.weight.data, norm.bias.data = torch.tensor([1.0, 2.0, 0.5]), torch.tensor([0.0, 1.0, -1.0])
    rows = 0.5 + torch.randn(32, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    expected = nn.functional.batch_norm(rows, norm.running_mean, norm.running_var, norm.weight, norm.bias)
    torch.testing.assert_close(norm(rows), expected, atol=1e-5, rtol=1e-4)
    norm.steps = 0
    assert not torch.allclose(norm(rows), expected, atol=1e-2)


def test_norms_are_replaced_throughout() -> None:
    model = build_model(ModelSettings(width=8), seed=0, inputs=None)
    count = sum(isinstance(part, nn.BatchNorm2d) for part in model.modules())
    by_running_statistics(model)
    assert not any(isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d) for part in model.modules())
    assert sum(isinstance(part, Renorm) for part in model.modules()) > count > 0


def _run(variant: str, seed: int, top1: float, background: dict[str, Any] | None = None) -> dict[str, Any]:
    about = {"variant": variant, "seed": seed, "epochs": 10, "top1": top1}
    return about | {"hardness": 2.0, "effective_size": None, "background": background}


def test_a_variant_is_compared_with_its_base_by_seed() -> None:
    watched = {"asked": 10, "drawn": 5, "agreement": 0.2, "alignment": 0.5}
    rows = [_run("shuffled", 0, 0.3), _run("shuffled", 1, 0.4), _run("Cut", 0, 0.35, watched), _run("Cut", 1, 0.43)]
    rows += [_run(images.LAST, 1, 0.43), _run("Cut, groups of 16", 1, 0.42)]
    shuffled, planned, _, grouped = images.summary(rows)
    assert planned["gain"] == pytest.approx(0.04)
    assert (planned["agreement"], planned["drawn"]) == (0.2, 0.5)
    assert (grouped["base"], grouped["gain"]) == (images.LAST, pytest.approx(-0.01))
    assert images.table([shuffled, planned, grouped]).splitlines()[2].split()[:5] == [
        "Cut",
        "10",
        "2",
        "39.00%",
        "4.00%",
    ]
    lines = images_report.variants_table({"summary": [shuffled, planned, grouped]}).splitlines()
    assert lines[2:] == [
        "| shuffled | 10 |  | 2 | 35.0 % |  | – |",
        "| Cut | 10 | shuffled | 2 | 39.0 % | +4.0 ± 1.0 | 0.20 |",
        "| Cut, groups of 16 | 10 | Cut, last views alone | 1 | 42.0 % | -1.0 | – |",
    ]


def test_gains_against_epochs_are_by_seed_and_drawn(tmp_path: Path) -> None:
    runs = [
        {"data": data, "objective": "simclr", "method": method, "seed": seed, "steps": 4}
        | {"top1": 0.3 + gain, "curve": [(1, 0.1), (2, 0.2 + gain), (3, 0.3), (4, 0.3 + gain)]}
        for data in images_report.EPOCHS
        for seed in (40, 41)
        for method, gain in (("Shuffle", 0.0), ("Cut", 0.01 * (seed - 38)))
    ]
    facts = {"runs": [*runs, runs[1] | {"seed": 42}]}  # a planned run without a shuffled one does not count
    lines = images_report.epochs_table(facts).splitlines()
    assert lines[2 : 2 + len(images_report.EPOCHS)] == [
        f"| {n} | 2 | 30.0 % | 32.5 % | +2.5 ± 0.5 | +2.5 | 75% |" for n in images_report.EPOCHS.values()
    ]
    light, dark = tmp_path / "images.svg", tmp_path / "images-dark.svg"
    images_report.plot_epochs(facts, light, dark)
    assert light.read_text(encoding="utf-8") != dark.read_text(encoding="utf-8")


def test_methods_of_the_paper_are_compared_by_seed_and_objective() -> None:
    scores = {
        ("Shuffle", "simclr"): 0.5,
        ("Spectral", "simclr"): 0.52,
        ("Shuffle", "sogclr"): 0.4,
        ("Cut", "sogclr"): 0.45,
    }
    runs = [
        {"data": images_report.COMPARED, "objective": objective, "method": method, "seed": seed}
        | {"top1": top1 + 0.01 * (seed - 40) * (method != "Shuffle")}
        for (method, objective), top1 in scores.items()
        for seed in (40, 41)
    ]
    lines = images_report.methods_table({"runs": runs}).splitlines()[2:]
    assert lines == [
        "| SGD (shuffled) | 2 | 50.0 |  | 46.9 | 40.0 |  | 12.3 |",
        "| SC (`Spectral`) | 2 | 52.5 | +2.5 ± 0.5 | 56.7 | – |  | 47.4 |",
        "| `Cut`, the default | 2 | – |  |  | 45.5 | +5.5 ± 0.5 |  |",
    ]
