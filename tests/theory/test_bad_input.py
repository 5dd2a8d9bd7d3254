"""Every function of the theory names the argument, the rule and the value."""

import re
from collections.abc import Callable

import pytest
import torch

from batchcut.theory import all_batches, full_batch, is_equiangular_tight_frame, over_batches, random_embeddings

CASES: list[tuple[Callable[[], object], str]] = [
    (
        lambda: over_batches([[0]]),
        "one size of at least 2; got sizes [1]",
    ),
    (lambda: over_batches([]), "batches must hold at least one batch, all of one size of at least 2; got sizes []"),
    (lambda: over_batches([[0, 1], [0, 1, 2]]), "got sizes [2, 3]"),
    (lambda: full_batch(-1.0), "temperature must be finite and above 0; got -1.0"),
    (lambda: all_batches(4, 1), "batch_size must be at least 2; got 1"),
    (lambda: all_batches(4, 9), "batch_size must be at most 4; got 9"),
    (lambda: random_embeddings(1, 3, seed=0), "n must be at least 2; got 1"),
    (lambda: random_embeddings(4, -1, seed=0), "d must be at least 1; got -1"),
    (
        lambda: is_equiangular_tight_frame(torch.empty(3, 0)),
        "u must hold at least 2 embeddings of at least 1",
    ),
]


@pytest.mark.parametrize(("call", "message"), CASES, ids=[message for _, message in CASES])
def test_error_names_argument_rule_and_value(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
