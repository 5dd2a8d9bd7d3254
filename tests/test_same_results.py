"""The same plans, batches, losses and weights as ever, to the bit: what a change that only moves code must leave alone.

Compiled code rounds as the processor does, so hashes are kept for each kind of processor; where there are none for the
one at hand, nothing can be said. `python -m tests.test_same_results` adds those of this machine, or takes them anew
after a change of behaviour that is meant.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from llvmlite import binding
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from batchcut import losses
from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, Sharding
from batchcut.selection import BatchPlan, Cut, Ordered, Selector, Shuffle, Spectral

KEPT = Path(__file__).with_name("same_results.json")

SETS = {  # samples, dimensions, kinds of samples, noise
    "small": (200, 16, 10, 0.5),
    "odd": (203, 16, 10, 0.5),
    "medium": (3000, 32, 60, 0.5),
    "uneven": (3001, 24, 0, 0.7),
    "nameful": (9000, 16, 100, 0.6),
    "many": (70_001, 8, 300, 0.5),
}

Case = tuple[Selector, str, int, dict[str, Any]]
PLANS: dict[str, Case] = {
    "cut small": (Cut(temperature=0.1), "small", 8, {}),
    "cut small unguarded": (Cut(temperature=0.05, margin=None), "small", 8, {"seed": 3, "epoch": 2}),
    "cut odd short": (Cut(temperature=0.1), "odd", 8, {"drop_last": False}),
    "cut odd rotate groups": (Cut(temperature=0.1), "odd", 8, {"groups": 7, "epoch": 1}),
    "cut medium": (Cut(temperature=0.1), "medium", 32, {}),
    "cut medium one round": (Cut(rounds=1, temperature=0.05), "medium", 32, {"seed": 1}),
    "cut medium five rounds": (Cut(rounds=5, temperature=0.05), "medium", 16, {"seed": 1}),
    "cut medium groups": (Cut(rounds=4, temperature=0.1), "medium", 32, {"groups": 400, "seed": 2}),
    "cut medium pools": (Cut(pool=10, temperature=0.1), "medium", 32, {"seed": 5}),
    "cut medium one thread": (Cut(threads=1, temperature=0.1), "medium", 32, {}),
    "cut medium wide margin": (Cut(margin=1.0, temperature=0.1), "medium", 32, {}),
    "cut medium warm": (Cut(temperature=2.0, margin=0.2), "medium", 32, {}),
    "cut medium cold": (Cut(temperature=0.004, margin=0.05), "medium", 32, {}),
    "cut uneven": (Cut(rounds=4, temperature=0.1), "uneven", 64, {"drop_last": False}),
    "cut uneven rotate": (Cut(margin=0.0, temperature=0.1), "uneven", 64, {"epoch": 4}),
    "cut uneven groups short": (Cut(temperature=0.1), "uneven", 64, {"drop_last": False, "groups": 500}),
    "cut large batches": (Cut(temperature=0.1), "medium", 512, {"drop_last": False}),
    "cut nameful": (Cut(temperature=0.05), "nameful", 64, {}),
    "cut nameful rounds": (Cut(temperature=0.05, rounds=4), "nameful", 32, {"seed": 9}),
    "cut many": (Cut(temperature=0.07), "many", 128, {}),
    "spectral paper": (Spectral(pool=5, temperature=0.1), "small", 8, {}),
    "spectral authors": (Spectral(pool=5, variant="authors", temperature=0.1), "small", 8, {"groups": 40}),
    "spectral odd margin": (Spectral(pool=10, margin=0.1, temperature=0.1), "odd", 8, {"drop_last": False}),
    "ordered": (Ordered(k=5, q=2, temperature=0.1), "small", 8, {}),
    "ordered odd": (Ordered(k=3, q=1, temperature=0.1), "odd", 8, {"drop_last": False, "groups": 9}),
    "ordered replacement": (
        Ordered(k=5, q=2, replacement=True, steps=4, temperature=0.1),
        "small",
        8,
        {"seed": 4},
    ),
    "shuffle": (Shuffle(temperature=0.1), "uneven", 32, {"epoch": 3}),
    "shuffle fixed": (Shuffle(replacement="fixed", temperature=0.1), "uneven", 32, {"epoch": 3}),
    "shuffle replacement": (
        Shuffle(replacement="with", per_step=3, temperature=0.1),
        "small",
        8,
        {"groups": 30},
    ),
    "shuffle margin": (Shuffle(margin=0.3, temperature=0.1), "medium", 32, {"groups": 600}),
}

SAMPLERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "views": {"average_views": True},
    "grouped": {"groups": np.random.default_rng(7).integers(0, 60, 203)},
    "kept": {"replan_every": 2, "shuffled_epochs": 2},
    "short": {"drop_last": False, "sharding": Sharding(rank=1, world_size=2, mode="split", together=False)},
    "whole": {"sharding": Sharding(rank=1, world_size=2, mode="whole", together=False), "seed": 3},
}

LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "contrastive": lambda u, v: losses.contrastive_loss(u, v, temperature=0.1),
    "nt_xent": lambda u, v: losses.nt_xent(u, v, temperature=0.1),
    "full_batch": lambda u, v: losses.full_batch_loss(u, v, temperature=0.1),
    "minibatch": lambda u, v: losses.minibatch_loss(u, v, torch.arange(64).reshape(8, 8), temperature=0.1),
    "sogclr": lambda u, v: losses.SogCLR(64, temperature=0.1)(torch.arange(64), u, v),
    "paper": lambda u, v: losses.paper.contrastive_loss(u, v, temperature=0.1),
}

TRAININGS = ("infonce", "simclr", "sogclr")


def digest(*arrays: NDArray[Any]) -> str:
    """A hash of arrays with their kinds and shapes."""
    found = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        found.update(str((array.dtype.str, array.shape)).encode() + array.tobytes())
    return found.hexdigest()[:16]


def pairs(count: int, dim: int, kinds: int, noise: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Noisy pairs u, v: (N, d) of several kinds."""
    rng = np.random.default_rng([count, dim, kinds, 0])
    u = rng.standard_normal((count, dim), dtype=np.float32)
    if kinds:
        u += 2 * rng.standard_normal((kinds, dim), dtype=np.float32)[rng.integers(0, kinds, count)]
    return u, u + np.float32(noise) * rng.standard_normal((count, dim), dtype=np.float32)


def of_plan(name: str) -> str:
    """The hash of all that came out of a plan."""
    selector, where, size, asked = PLANS[name]
    u, v = pairs(*SETS[where])
    groups = {"groups": np.random.default_rng(7).integers(0, asked["groups"], len(u))} if "groups" in asked else {}
    plan = selector(u, v, batch_size=size, **(asked | groups))
    return digest(
        plan.batches, plan.losses, plan.weights, plan.left_over, np.array([plan.group_pairs, plan.margin_pairs])
    )


def of_sampler(name: str) -> str:
    """The hash of the batches of four epochs, planned from a bank that has seen three quarters of the samples."""
    u, v = map(torch.from_numpy, pairs(*SETS["odd"]))
    bank = EmbeddingBank(len(u), 16)
    bank.record(torch.arange(150), u[:150], v[:150])
    sampler = PlannedBatchSampler(bank, batch_size=8, selector=Cut(temperature=0.1), **SAMPLERS[name])
    return hashlib.sha256(json.dumps([list(sampler) for _ in range(4)]).encode()).hexdigest()[:16]


def of_loss(name: str) -> str:
    """The hash of a loss and its gradient."""
    sides = [torch.nn.functional.normalize(torch.from_numpy(side), dim=1) for side in pairs(64, 16, 8, 0.5)]
    u, v = (side.requires_grad_() for side in sides)
    loss = LOSSES[name](u, v)
    gradients = torch.autograd.grad(loss, (u, v))
    return digest(loss.detach().numpy(), *(gradient.numpy() for gradient in gradients))


def of_training(name: str) -> str:
    """The hash of the weights, the plans and the scores of a run of a few seconds."""
    from safetensors.numpy import load_file
    from tests.training._runs import image_config, pairs_config, write_pairs

    from batchcut.training import ObjectiveSettings, SelectionSettings, train

    with tempfile.TemporaryDirectory() as folder:
        run, objective = Path(folder, "run"), ObjectiveSettings(loss=name)  # type: ignore[arg-type]
        path = write_pairs(Path(folder, "pairs.npz"))
        alone = SelectionSettings(background=False)
        train(pairs_config(path, selection=alone) if name == "infonce" else image_config(objective=objective), run)
        weights = load_file(run / "model.safetensors")
        plans = [BatchPlan.load(plan).batches for plan in sorted((run / "plans").iterdir())]
        scores = json.loads((run / "result.json").read_text())["scores"]
    values = np.array([scores[key] for key in sorted(scores)])
    return digest(*(weights[key] for key in sorted(weights)), *plans, values)


HASHES: Mapping[str, Callable[[], str]] = (
    {f"plan: {name}": partial(of_plan, name) for name in PLANS}
    | {f"sampler: {name}": partial(of_sampler, name) for name in SAMPLERS}
    | {f"loss: {name}": partial(of_loss, name) for name in LOSSES}
    | {f"training: {name}": partial(of_training, name) for name in TRAININGS}
)


def processor() -> str:
    """What results may depend on: the processor that code is compiled for, the kernels of BLAS, and how both round."""
    rows = np.random.default_rng(0).standard_normal((257, 129), dtype=np.float32)
    images = torch.from_numpy(rows[:256, :128].reshape(2, 4, 64, 64).copy())
    convolved = torch.nn.functional.conv2d(images, images[:, :, :3, :3].contiguous())
    with threadpool_limits(1):
        products = rows @ rows.T
    blas = sorted({str(library.get("architecture")) for library in threadpool_info() if library["user_api"] == "blas"})
    return " ".join([binding.get_host_cpu_name(), *blas, digest(products, convolved.numpy())])


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore:.*of the groups have more members")
@pytest.mark.parametrize("name", HASHES)
def test_same_results(name: str) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8")).get(processor())
    if kept is None:
        pytest.skip(f"no hashes are kept for {processor()}")
    assert HASHES[name]() == kept[name]


if __name__ == "__main__":
    torch.set_num_threads(1)
    known = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    known[processor()] = {name: take() for name, take in HASHES.items()}
    KEPT.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(HASHES)} hashes for {processor()} in {KEPT.name}\n")
