import math
import os
import re
import subprocess
import sys
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.losses._reference import all_batches, pairs, slow_loss_of_batch
from torch import Tensor

from batchcut.losses import _minibatch
from batchcut.losses.paper import contrastive_loss, minibatch_loss

SETS = {
    "partition": [[0, 5, 2], [1, 4, 8], [3, 6, 7]],
    "overlapping": [[0, 1], [1, 2], [0, 1], [8, 3]],
    "one": [[4, 2, 7, 1]],
    "everything": [list(range(9))],
    "many": [list(x) for x in all_batches(9, 4)][::3],
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_equals_a_loop(name: str, temperature: float) -> None:
    u, v = pairs(9, 4)
    batches = SETS[name]
    expected = [slow_loss_of_batch(u, v, batch, temperature) for batch in batches]
    each = minibatch_loss(u, v, batches, temperature=temperature, reduction="none")
    assert each.tolist() == pytest.approx(expected, rel=1e-12)
    mean = minibatch_loss(u, v, batches, temperature=temperature)
    assert mean.item() == pytest.approx(sum(expected) / len(expected), rel=1e-12)


@pytest.mark.parametrize(("n", "size"), [(4, 2), (6, 3), (7, 6), (5, 5)])
def test_all_batches_by_name(n: int, size: int) -> None:
    u, v = pairs(n, 3, seed=size)
    expected = [slow_loss_of_batch(u, v, batch) for batch in all_batches(n, size)]
    each = minibatch_loss(u, v, "all", batch_size=size, reduction="none")
    assert each.tolist() == pytest.approx(expected, rel=1e-12)
    assert minibatch_loss(u, v, "all", batch_size=size).item() == pytest.approx(
        sum(expected) / len(expected), rel=1e-12
    )


@pytest.mark.parametrize(("n", "size"), [(2, 2), (6, 3), (10, 2)])
def test_orthonormal_and_collapsed_pairs(n: int, size: int) -> None:
    """`prop:prop1`: the two cases in which full and mini-batch loss differ by different factors."""
    eye, same = torch.eye(n, dtype=torch.float64), torch.ones(n, 1, dtype=torch.float64)
    orthonormal = minibatch_loss(eye, eye, "all", batch_size=size)
    assert orthonormal.item() == pytest.approx(2 * math.log((math.e + size - 1) / math.e), rel=1e-13)
    assert minibatch_loss(same, same, "all", batch_size=size).item() == pytest.approx(2 * math.log(size), rel=1e-13)


@pytest.mark.parametrize("batches", [SETS["overlapping"], "all"])
def test_gradient(batches: Any) -> None:
    size = 2 if batches == "all" else None
    assert torch.autograd.gradcheck(lambda u, v: minibatch_loss(u, v, batches, batch_size=size), pairs(9, 2))


# On nine samples of width 4: CHUNK = 1 works one batch at a time, 100 a few, in unequal stretches;
# a matrix of 81 is made or not.
@pytest.mark.parametrize("chunk", [1, 100])
@pytest.mark.parametrize("largest_matrix", [80, 81])
@pytest.mark.parametrize("batches", [SETS["overlapping"], SETS["many"], "all"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_stretches_change_nothing(
    monkeypatch: pytest.MonkeyPatch, chunk: int, largest_matrix: int, batches: Any, reduction: Literal["mean", "none"]
) -> None:
    def value_and_gradients() -> tuple[Tensor, ...]:
        u, v = pairs(9, 4)
        temperature = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
        size = 3 if batches == "all" else None
        value = minibatch_loss(u, v, batches, batch_size=size, temperature=temperature, reduction=reduction)
        weights = torch.arange(1.0, value.numel() + 1, dtype=torch.float64).reshape(value.shape)
        return value, *torch.autograd.grad((value * weights).sum(), (u, v, temperature))

    expected = value_and_gradients()
    monkeypatch.setattr(_minibatch, "CHUNK", chunk)
    monkeypatch.setattr(_minibatch, "LARGEST_MATRIX", largest_matrix)
    torch.testing.assert_close(value_and_gradients(), expected, rtol=1e-12, atol=1e-14)


def test_stretches_without_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = pairs(9, 4)
    expected = minibatch_loss(u, v, SETS["many"]).item()
    monkeypatch.setattr(_minibatch, "CHUNK", 20)
    with torch.no_grad():
        assert minibatch_loss(u, v, SETS["many"]).item() == pytest.approx(expected, abs=1e-14)


MEASURE = """
import resource, sys, torch
from batchcut.losses import _minibatch
n, d, size, count = map(int, sys.argv[1:])
torch.set_num_threads(1)
u, v = (torch.randn(n, d, requires_grad=True) for _ in range(2))
batches = torch.rand(count, 64).argsort(1)[:, :size] if count else "all"
_minibatch.CHUNK, _minibatch.LARGEST_MATRIX = 1, 2**22
_minibatch.minibatch_loss(u, v, [list(range(size))] * 2).backward()
_minibatch.CHUNK = 2**18
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_minibatch.minibatch_loss(u, v, batches, batch_size=size).backward()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
# In one stretch: 367,290 × 16 similarities, kept several times over, 22 MiB each; 30,000 batches of 2 rows of 512
# numbers, 117 MiB for each side; and for 3500 samples a matrix of 47 MiB and its gradient.
@pytest.mark.parametrize(
    ("n", "d", "size", "count"),
    [(56, 4, 4, 0), (2100, 512, 2, 30_000), (3500, 4, 64, 3000)],
    ids=["all", "wide", "many samples"],
)
def test_memory_is_bounded(n: int, d: int, size: int, count: int) -> None:
    command = [sys.executable, "-c", MEASURE, *map(str, (n, d, size, count))]
    # So that what is freed goes back to the system, and the peak is what is in use at once.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "250000"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    assert int(done.stdout) < 60


@pytest.mark.parametrize(
    "batches",
    [
        np.array([[0, 1], [2, 3]]),
        np.array([[0, 1], [2, 3]], dtype=np.uint16),
        torch.tensor([[0, 1], [2, 3]], dtype=torch.int32),
        ((0, 1), (2, 3)),
    ],
)
def test_batches_of_any_integer_kind(batches: Any) -> None:
    u, v = pairs(4, 3)
    assert minibatch_loss(u, v, batches).item() == pytest.approx(minibatch_loss(u, v, [[0, 1], [2, 3]]).item())


def test_a_read_only_array_is_no_warning() -> None:
    batches = np.array([[0, 1], [2, 3]])
    batches.flags.writeable = False
    assert minibatch_loss(*pairs(4, 3), batches).isfinite()


def test_half_precision() -> None:
    u, v = pairs(9, 8, dtype=torch.bfloat16)
    loss = minibatch_loss(u, v, SETS["partition"], temperature=0.05)
    assert loss.dtype == torch.float32
    expected = minibatch_loss(u.double(), v.double(), SETS["partition"], temperature=0.05)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


@given(st.integers(2, 9), st.integers(0, 2**20))
def test_one_batch_of_all_is_the_full_batch(n: int, seed: int) -> None:
    u, v = pairs(n, 3, seed=seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(minibatch_loss(u, v, order[None]), contrastive_loss(u, v))


@given(st.integers(3, 8), st.integers(0, 2**20))
def test_the_order_of_the_samples_does_not_matter_to_all(n: int, seed: int) -> None:
    u, v = pairs(n, 3, seed=seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(
        minibatch_loss(u[order], v[order], "all", batch_size=2), minibatch_loss(u, v, "all", batch_size=2)
    )


@pytest.mark.parametrize(
    ("n", "size", "count"),
    [
        (50, 25, "C(50, 25) = 126,410,606,437,752 batches"),
        (200, 32, "C(200, 32) = about 1.2e37 batches"),
        (50_000, 32, "C(50000, 32) = about 8.8e114 batches"),
        (20_000, 10_000, "C(20000, 10000) = about 2.2e6018 batches"),
    ],
)
def test_hopeless_counts_are_named(n: int, size: int, count: str) -> None:
    x = torch.ones(n, 1)
    limit = f"batches must name at most {10**10 // size**2:,} batches of size {size}; got 'all', which is {count}"
    with pytest.raises(ValueError, match=f"^{re.escape(limit)}$"):
        minibatch_loss(x, x, "all", batch_size=size)


BAD_BATCHES: list[tuple[Any, type[Exception], str]] = [
    ("some", ValueError, "batches must be 'all' or (K, B) indices; got 'some'"),
    ([[0, 1], [2]], ValueError, "batches must be 'all' or (K, B) indices, all batches of one size; got "),
    (None, ValueError, "batches must be 'all' or (K, B) indices, all batches of one size; got "),
    ([0, 1], ValueError, "batches must have shape (K, B) with at least one batch; got (2,)"),
    ([], ValueError, "batches must have shape (K, B) with at least one batch; got (0,)"),
    ([[]], ValueError, "batches must have shape (K, B) with at least one batch; got (1, 0)"),
    ([[0.0, 1.0]], TypeError, "batches must hold integers; got torch.float32"),
    ([[True, False]], TypeError, "batches must hold integers; got torch.bool"),
    ([[1j, 0]], TypeError, "batches must hold integers; got torch.complex64"),
    ([[0], [1]], ValueError, "batch size (the width of batches) must be at least 2; got 1"),
    ([[0, 1, 2, 3, 4]], ValueError, "batch size (the width of batches) must be at most 4; got 5"),
    ([[0, 1], [3, 4]], ValueError, "batches must hold indices from 0 to 3; got 4"),
    ([[0, 1], [-1, 4]], ValueError, "batches must hold indices from 0 to 3; got -1"),
    (
        [[0, 1], [2, 3], [3, 3]],
        ValueError,
        "batches must name a sample at most once in a batch; got 3 twice in batch 2",
    ),
    ([[2, 0, 2]], ValueError, "batches must name a sample at most once in a batch; got 2 twice in batch 0"),
]


@pytest.mark.parametrize(("batches", "kind", "text"), BAD_BATCHES)
def test_bad_batches(batches: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}"):
        minibatch_loss(torch.eye(4), torch.eye(4), batches)


@pytest.mark.parametrize(
    ("size", "kind", "text"),
    [
        (None, ValueError, "batch_size must be given with batches='all'; got None"),
        (1, ValueError, "batch_size must be at least 2; got 1"),
        (5, ValueError, "batch_size must be at most 4; got 5"),
        (2.0, TypeError, "batch_size must be an integer; got float"),
    ],
)
def test_bad_batch_sizes(size: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{text}$"):
        minibatch_loss(torch.eye(4), torch.eye(4), "all", batch_size=size)


def test_a_batch_size_that_contradicts_the_batches() -> None:
    with pytest.raises(ValueError, match=r"^batch_size must equal the width of batches, 2, or be left out; got 3$"):
        minibatch_loss(torch.eye(4), torch.eye(4), [[0, 1]], batch_size=3)


def test_an_unknown_reduction() -> None:
    with pytest.raises(ValueError, match=r"^reduction must be 'mean' or 'none'; got 'sum'$"):
        minibatch_loss(torch.eye(4), torch.eye(4), [[0, 1]], reduction="sum")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "batches",
    [
        [np.array([0, 1]), np.array([2, 3])],
        [torch.tensor([0, 1]), torch.tensor([2, 3])],
        np.array([[2, 3], [0, 1]])[::-1],
        np.array([[0, 1], [2, 3]], dtype=">i8"),
        ((0, 1), (2, 3)),
    ],
    ids=["arrays", "tensors", "reversed", "big-endian", "tuples"],
)
def test_batches_come_in_many_forms(batches: object) -> None:
    u, v = pairs(4, 3)
    torch.testing.assert_close(minibatch_loss(u, v, batches), minibatch_loss(u, v, [[0, 1], [2, 3]]))
