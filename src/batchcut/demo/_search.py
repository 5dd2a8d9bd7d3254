"""The search engines that the demo has trained, as an index."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from batchcut.data import FunctionSearch, Pairs
from batchcut.report import SearchIndex, SearchTower, joined_layer, rounded, shortened_features
from batchcut.training import trained_model

QUESTIONS = 3


def questions_of(functions: FunctionSearch) -> tuple[str, ...]:
    """What some functions of the test part do: those at equal distances in it, not those that look well."""
    sentences = functions.test.sentences
    return tuple(sentences[len(sentences) * (k + 1) // (QUESTIONS + 1)] for k in range(QUESTIONS))


def search_index(functions: FunctionSearch, runs: Mapping[str, Path], *, learnt: int) -> SearchIndex:
    """All functions, to be found by the models of some runs, which have learnt from the first so many of them."""
    train, test, split = functions.train, functions.test, functions.split
    u, v = (np.concatenate([getattr(part, side) for part in (split.train, split.test)]) for side in "uv")
    everything = Pairs("all", u, v)
    towers = []
    for label, run in runs.items():
        model = trained_model(run, split)
        _, answers = model.pairs(everything)
        weights = {name: value.numpy() for name, value in model.towers.left.state_dict().items()}
        layers = tuple(
            joined_layer(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in ("encoder.0", "head")
        )
        towers.append(SearchTower(label, layers, rounded(answers.numpy())))
    buckets, table = shortened_features(functions.features)
    return SearchIndex(
        names=(*train.names, *test.names),
        texts=(*train.sentences, *test.sentences),
        learnt=learnt,
        buckets=buckets,
        table=table,
        towers=tuple(towers),
        questions=questions_of(functions),
    )
