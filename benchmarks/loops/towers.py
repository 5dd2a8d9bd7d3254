"""Two small towers on pairs of features, trained by any batches and with several kinds of further candidates.

The loop is that of the recipe `pairs` (AdamW, 1e-3, half-cosine), written out so that it can be looked into: after each
epoch it calls back. Some training rows are held out to be told apart; the test part of the data is not touched.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import normalize

from batchcut.data import Pairs, load_functions
from batchcut.losses import Background, contrastive_loss
from batchcut.sampling import EmbeddingBank
from batchcut.selection import Cut, Spectral

TAU = 0.05
HIDDEN = 512
PEAK, DECAY = 1e-3, 1e-2
HELD_OUT = 2000

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Planner = Callable[[Floats, Floats, int, int, int], Ints]
"""(u, v, batch size, seed, epoch) to batches (K, B)."""


class Split(NamedTuple):
    """Features of the pairs to learn from, and of those to be told apart: two sides each."""

    train: list[Tensor]
    held: list[Tensor]


@dataclass(frozen=True, kw_only=True)
class Extra:
    """Further candidates of each row, drawn anew for each batch.

    Attributes:
        rows: "old": embeddings of the last epoch, from the bank, as in the library; "fresh": of the towers as they are,
            without gradient; "trained": those with gradient, so that it is a larger batch of which a few are anchors.
        count: How many.
        share: Of the negatives' mass that they hold at most; 1: all that `weight` gives them.
        weight: How many samples one stands for at most; 0: as many as are left for it, N / count.
        push: How often their push on the anchor counts. In a batch a pair of samples pushes each other twice, each in
            its role as an anchor and as a candidate; rows without gradient do so once.
    """

    rows: Literal["old", "fresh", "trained"]
    count: int = 256
    share: float = 0.15
    weight: float = 0.0
    push: float = 1.0


class Towers:
    """Two towers, which give embeddings that are not normalised."""

    def __init__(self, dims: tuple[int, int], *, seed: int, width: int = 128) -> None:
        torch.manual_seed(seed)
        self.towers = [Sequential(Linear(dim, HIDDEN), ReLU(), Linear(HIDDEN, width)) for dim in dims]
        self.weights = [weight for tower in self.towers for weight in tower.parameters()]
        groups = [[w for w in self.weights if w.ndim == dims] for dims in (2, 1)]
        self.optimizer = torch.optim.AdamW(
            [{"params": groups[0], "weight_decay": DECAY}, {"params": groups[1], "weight_decay": 0.0}], lr=PEAK
        )

    def embed(self, inputs: list[Tensor]) -> list[Tensor]:
        """Both sides of some samples."""
        return [tower(side) for tower, side in zip(self.towers, inputs, strict=True)]

    def units(self, inputs: list[Tensor]) -> list[Tensor]:
        """Both sides of some samples as unit rows, without gradient."""
        with torch.no_grad():
            return [normalize(side, dim=1) for side in self.embed(inputs)]


class State(NamedTuple):
    """Where a run is after an epoch: its towers, its bank, the batches of the epoch."""

    epoch: int
    towers: Towers
    bank: EmbeddingBank
    batches: Ints


def load(name: str, *, most: int | None = None, held: int = HELD_OUT) -> Split:
    """The training rows of an .npz file, or "functions", the last `held` of them apart; `most` of the others."""
    if name == "functions":
        part = load_functions().split.train
        assert isinstance(part, Pairs)  # of features, not of images
        sides = [np.asarray(part.u), np.asarray(part.v)]
    else:
        with np.load(Path(name)) as arrays:
            sides = [arrays["train_u"], arrays["train_v"]]
    rows = [torch.from_numpy(np.array(side, np.float32)) for side in sides]
    return Split([side[:-held][:most] for side in rows], [side[-held:] for side in rows])


def shuffled(u: Floats, _: Floats, batch_size: int, seed: int, epoch: int) -> Ints:
    """Random batches."""
    count = len(u) // batch_size
    return np.random.default_rng([seed, epoch, 1]).permutation(len(u))[: count * batch_size].reshape(count, batch_size)


def planned(u: Floats, v: Floats, batch_size: int, seed: int, epoch: int) -> Ints:
    """Those of `Cut`, by the quick search as in the recipe."""
    plan = Cut(temperature=TAU, rounds=1)(u, v, batch_size=batch_size, seed=seed, epoch=epoch)
    return np.array(plan.batches[: len(u) // batch_size])


def spectral(u: Floats, v: Floats, batch_size: int, seed: int, epoch: int) -> Ints:
    """Those of the paper's spectral clustering, in pools of 40."""
    plan = Spectral(temperature=TAU, pool=40)(u, v, batch_size=batch_size, seed=seed, epoch=epoch)
    return np.array(plan.batches[: len(u) // batch_size])


def train(
    data: Split,
    plan: Planner,
    extra: Extra | None,
    *,
    seed: int,
    batch_size: int = 32,
    epochs: int = 6,
    rate: float = PEAK,
    after: Callable[[State], None] = lambda _: None,
) -> Towers:
    """Trains; the first epoch is shuffled and has no further candidates, whatever is asked for."""
    count = len(data.train[0])
    towers = Towers((data.train[0].shape[1], data.train[1].shape[1]), seed=seed)
    bank = EmbeddingBank(count, 128)
    bank.record(torch.arange(count), *towers.units(data.train))
    step, steps = 0, epochs * (count // batch_size)
    for epoch in range(epochs):
        make = plan if epoch else shuffled
        batches = make(bank.u.numpy(), bank.v.numpy(), batch_size, seed, epoch)
        rng = np.random.default_rng([seed, epoch])
        for place in rng.permutation(len(batches)):
            for group in towers.optimizer.param_groups:
                group["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
            batch = torch.from_numpy(batches[place])
            u, v = towers.embed([side[batch] for side in data.train])
            loss = _loss(u, v, batch, extra if epoch else None, towers, data, bank, rng)
            towers.optimizer.zero_grad()
            loss.backward()
            towers.optimizer.step()
            bank.record(batch, u.detach(), v.detach())
            step += 1
        after(State(epoch + 1, towers, bank, batches))
    return towers


def _loss(
    u: Tensor,
    v: Tensor,
    batch: Tensor,
    extra: Extra | None,
    towers: Towers,
    data: Split,
    bank: EmbeddingBank,
    rng: np.random.Generator,
) -> Tensor:
    if extra is None:
        return contrastive_loss(u, v, temperature=TAU)
    chosen = torch.from_numpy(rng.integers(len(bank), size=min(extra.count, len(bank))))
    live = ~torch.isin(chosen, batch)
    if extra.rows == "old":
        rows = [bank.u[chosen], bank.v[chosen]]
    else:
        with torch.set_grad_enabled(extra.rows == "trained"):
            rows = towers.embed([side[chosen] for side in data.train])
    weight = extra.weight or len(bank) / len(chosen)
    share = min(extra.share, 1 - 1e-7)
    if extra.rows == "trained" or extra.push != 1:
        return loss_with_gradient(u, v, rows[0], rows[1], live, share=share, weight=weight, push=extra.push)
    background = Background(u=rows[0], v=rows[1], share=share, largest_weight=weight, live=live)
    return contrastive_loss(u, v, temperature=TAU, background=background)


def loss_with_gradient(
    u: Tensor, v: Tensor, far_u: Tensor, far_v: Tensor, live: Tensor, *, share: float, weight: float, push: float = 1.0
) -> Tensor:
    """`contrastive_loss` with a background whose rows get the gradient that they ask for, its push counted often."""
    total = torch.zeros(())
    for a, b, far in ((u, v, far_v), (v, u, far_u)):
        anchors = normalize(a, dim=1) / TAU
        scores = anchors @ normalize(b, dim=1).T
        beside = (anchors @ normalize(far, dim=1).T).masked_fill(~live, -1e30)
        with torch.no_grad():
            inside = scores.masked_fill(torch.eye(len(a), dtype=torch.bool), -torch.inf).logsumexp(dim=1)
            shift = inside - beside.logsumexp(dim=1) + math.log(share / (1 - share))
            shift = shift.clamp(max=math.log(weight))
        beside = push * beside - (push - 1) * beside.detach()  # of the same value
        whole = torch.cat([scores, beside + shift[:, None]], dim=1).logsumexp(dim=1)
        total = total + (whole - scores.diagonal()).mean() / 2
    return total


def top1(units: list[Tensor]) -> float:
    """How often a row finds its partner among all, the mean of both ways."""
    return float(np.mean([(found == np.arange(len(found))).mean() for found in nearest(units)]))


def nearest(units: list[Tensor]) -> list[Ints]:
    """For each u the nearest v, and for each v the nearest u."""
    scores = units[0] @ units[1].T
    return [scores.argmax(dim=1).numpy(), scores.argmax(dim=0).numpy()]
