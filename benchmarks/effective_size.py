"""The effective batch size by several gradients: with respect to embeddings, an affine layer, the encoders' weights.

`effective_size.py FILE` trains two small towers on the pairs of features `train_u`, `train_v` in an .npz file with
shuffled batches. After some epochs it asks how large random batches would have to be to keep as much of the full-batch
gradient as shuffled batches, those of `Cut`, and those of `Cut` with random samples of the set as further candidates
(512 for each batch, which hold at most 0.15 of the negatives' mass of each row, and get no gradient). The last line of
the first two is `effective_batch_size` itself, by its default number of anchors. With `--output`, figures are stored
as JSON.
"""

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import normalize

from batchcut.losses import contrastive_loss
from batchcut.selection import Cut, Shuffle, effective_batch_size

TAU = 0.05
HIDDEN = 512
EXTRA, SHARE = 512, 0.15
SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
CELLS = 1 << 22

Background = tuple[NDArray[np.int64], NDArray[np.float64]]
Measures = dict[str, Tensor]


class Towers:
    """Two towers and the features that go into them."""

    def __init__(self, u: Tensor, v: Tensor, *, seed: int) -> None:
        torch.manual_seed(seed)
        self.inputs = (u, v)
        dims = u.shape[1]
        self.towers = [Sequential(Linear(dims, HIDDEN), ReLU(), Linear(HIDDEN, dims)) for _ in range(2)]
        self.weights = [weight for tower in self.towers for weight in tower.parameters()]
        self.optimizer = torch.optim.AdamW(self.weights, lr=1e-3)
        self.generator = torch.Generator().manual_seed(seed)

    def embed(self, samples: Tensor) -> list[Tensor]:
        """The embeddings of some samples, not normalised."""
        return [tower(x[samples]) for tower, x in zip(self.towers, self.inputs, strict=True)]

    def train_epoch(self, batch_size: int) -> None:
        """One pass by shuffled batches."""
        for batch in torch.randperm(len(self.inputs[0]), generator=self.generator).split(batch_size):
            loss = contrastive_loss(*self.embed(batch), temperature=TAU)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def gradients(sides: list[Tensor], batches: Tensor, background: Background | None, *, roles: str) -> list[Tensor]:
    """Of the summed losses of all batches (K, B), with respect to the rows of both sides: as anchors, or in both roles.

    Rows are normalised in the loss.
    """
    found = [torch.zeros_like(side) for side in sides]
    step = max(1, CELLS // batches.shape[1] ** 2)
    for part in batches.split(step):
        rows = [side[part].detach().requires_grad_() for side in sides]
        units = [normalize(row, dim=2) for row in rows]
        total = torch.zeros(())
        for k in range(2):
            others = units[1 - k] if roles == "both" else units[1 - k].detach()
            scores = units[k] @ others.mT / TAU
            positive = scores.diagonal(dim1=1, dim2=2)
            if background is not None:
                samples, log_weights = background
                far = normalize(sides[1 - k][torch.from_numpy(samples[part[:, 0]])], dim=2)
                more = units[k] @ far.mT / TAU + torch.from_numpy(log_weights[k, part]).float()
                scores = torch.cat([scores, more], dim=2)
            total = total + (scores.logsumexp(dim=2) - positive).sum()
        slopes = torch.autograd.grad(total, rows)
        for k in range(2):
            found[k].index_add_(0, part.reshape(-1), slopes[k].reshape(-1, sides[k].shape[1]))
    return found


def measures(towers: Towers, samples: Tensor, batches: Tensor, background: Background | None = None) -> Measures:
    """The gradient of given batches by its several definitions, each as one vector."""
    raw = [side.detach() for side in towers.embed(samples)]
    units = [normalize(side, dim=1) for side in raw]
    as_anchors = gradients(units, batches, background, roles="anchor")
    in_both = gradients(units, batches, background, roles="both")
    wide = [torch.cat([unit, torch.ones(len(unit), 1)], dim=1) for unit in units]
    for weight in towers.weights:
        weight.grad = None
    torch.autograd.backward(towers.embed(samples), gradients(raw, batches, background, roles="both"))
    return {
        "each embedding, as an anchor": _flat(as_anchors),
        "each embedding, in both roles": _flat(in_both),
        "an affine layer, anchors": _flat([g.T @ w for g, w in zip(as_anchors, wide, strict=True)]),
        "an affine layer, both roles": _flat([g.T @ w for g, w in zip(in_both, wide, strict=True)]),
        "the towers' weights": _flat([weight.grad for weight in towers.weights]),
    }


def drawn_background(sides: list[Tensor], batches: NDArray[np.int64], rng: np.random.Generator) -> Background:
    """Samples (N, M), the same for all of a batch, and log weights (2, N, M) by which they hold their share."""
    count = len(sides[0])
    samples, log_weights = np.zeros((count, EXTRA), np.int64), np.zeros((2, count, EXTRA))
    for batch in batches.copy():  # that of a plan cannot be written to, which torch warns of
        far = rng.choice(count, EXTRA, replace=False)
        samples[batch] = far
        own = batch[:, None] == far
        for k in range(2):
            near = (sides[k][batch] @ sides[1 - k][batch].T / TAU).double().numpy()
            np.fill_diagonal(near, -np.inf)
            distant = np.where(own, -np.inf, (sides[k][batch] @ sides[1 - k][far].T / TAU).double().numpy())
            shift = np.logaddexp.reduce(near, axis=1) - np.logaddexp.reduce(distant, axis=1)
            shift = np.minimum(shift + math.log(SHARE / (1 - SHARE)), math.log(count / EXTRA))
            log_weights[k, batch] = np.where(own, -1e9, shift[:, None])
    return samples, log_weights


def compare(towers: Towers, samples: Tensor, batch_size: int, seed: int) -> list[dict[str, Any]]:
    """For each kind of batches and each definition: the share that is kept, the cosine, and the effective size."""
    with torch.no_grad():
        sides = [normalize(side, dim=1) for side in towers.embed(samples)]
    count, rng = len(samples), np.random.default_rng(seed)
    whole = measures(towers, samples, torch.arange(count)[None])
    curves: dict[str, list[float]] = {name: [] for name in whole}
    sizes = [size for size in SIZES if size < count]
    for size in sizes:
        batches = torch.from_numpy(rng.permutation(count)[: count // size * size].reshape(-1, size))
        for name, gradient in measures(towers, samples, batches).items():
            curves[name].append(_kept(gradient, whole[name]) * count / batches.numel())
    u, v = (side.numpy() for side in sides)
    plans = {kind: make(temperature=TAU)(u, v, batch_size=batch_size, seed=seed) for kind, make in _KINDS.items()}
    background = drawn_background(sides, plans["Cut"].batches, rng)
    asked = [("shuffled", "shuffled", None), ("Cut", "Cut", None), ("Cut with a background", "Cut", background)]
    rows: list[dict[str, Any]] = []
    for label, kind, extra in asked:
        for name, gradient in measures(towers, samples, torch.from_numpy(plans[kind].batches.copy()), extra).items():
            kept = _kept(gradient, whole[name])
            size = np.exp(np.interp(kept, np.maximum.accumulate([*curves[name], 1.0]), np.log([*sizes, count])))
            cosine = float(torch.nn.functional.cosine_similarity(gradient, whole[name], dim=0))
            rows.append({"batches": label, "by": name, "kept": kept, "cosine": cosine, "size": float(size)})
        if extra is None:
            found = effective_batch_size(u, v, plans[kind], temperature=TAU, seed=seed)
            rows.append({"batches": label, "by": "effective_batch_size", "cosine": None, **found.facts})
    return rows


_KINDS: dict[str, Callable[..., Any]] = {"shuffled": Shuffle, "Cut": Cut}


def _kept(gradient: Tensor, whole: Tensor) -> float:
    return float(gradient.double() @ whole.double() / whole.double().square().sum())


def _flat(parts: list[Any]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def main() -> None:
    """Trains, compares, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, help=".npz file with train_u and train_v")
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 4], help="after how many epochs to compare")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="store the figures here as JSON")
    options = parser.parse_args()
    with np.load(options.pairs) as arrays:
        u, v = (torch.from_numpy(arrays[name].astype(np.float32)) for name in ("train_u", "train_v"))
    towers = Towers(u, v, seed=options.seed)
    samples = torch.from_numpy(np.random.default_rng(options.seed).permutation(len(u))[: options.samples].copy())
    rows = []
    for epoch in range(1, max(options.epochs) + 1):
        towers.train_epoch(options.batch_size)
        if epoch in options.epochs:
            for row in compare(towers, samples, options.batch_size, options.seed):
                rows.append({"epochs": epoch} | row)
                print(json.dumps(rows[-1]), flush=True)
    if options.output is not None:
        facts = {"samples": len(samples), "batch_size": options.batch_size, "temperature": TAU, "rows": rows}
        options.output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
