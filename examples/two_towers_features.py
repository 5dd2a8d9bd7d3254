"""Two small towers on frozen features, as for images and captions: shuffled and planned batches.

`python examples/two_towers_features.py` makes up features; `--pairs FILE.npz` takes two arrays, u
and v, row by row.
"""

import argparse
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import batchcut as bc
from batchcut.evaluation import retrieval

TEMPERATURE = 0.05


class Towers(nn.Module):
    """A tower for each side; both end in the same space."""

    def __init__(self, width_u: int, width_v: int) -> None:
        super().__init__()
        self.u, self.v = (
            nn.Sequential(nn.Linear(w, 256), nn.ReLU(), nn.Linear(256, 64))
            for w in (width_u, width_v)
        )

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings (b, 64) of features x: (b, width_u) and y: (b, width_v)."""
        return self.u(x), self.v(y)


def made_up() -> tuple[Tensor, Tensor]:
    """Two noisy looks at 5,000 things of 200 kinds, which differ little within a kind."""
    random = torch.Generator().manual_seed(0)
    kinds = torch.randn(200, 32, generator=random)
    kind = torch.randint(200, (5000,), generator=random)
    things = kinds[kind] + 0.5 * torch.randn(5000, 32, generator=random)
    looks = [things @ torch.randn(32, width, generator=random) / 32**0.5 for width in (128, 96)]
    x, y = (look + 0.5 * torch.randn(look.shape, generator=random) for look in looks)
    return x, y


def read(path: str | None) -> tuple[TensorDataset, TensorDataset]:
    """The pairs to learn from, and those for the test."""
    if path is None:
        x, y = made_up()
        return TensorDataset(x[:4000], y[:4000]), TensorDataset(x[4000:], y[4000:])
    split = bc.data.load(f"pairs:{path}")
    parts = (cast(bc.data.Pairs, part) for part in (split.train, split.test))
    train, test = (
        TensorDataset(torch.tensor(part.u).float(), torch.tensor(part.v).float()) for part in parts
    )
    return train, test


def train(
    pairs: TensorDataset,
    selector: bc.selection.Selector,
    *,
    epochs: int,
    replan_every: int,
    fill: bool,
    seed: int,
) -> Towers:
    """Towers after some epochs with the batches that a selector chooses."""
    torch.manual_seed(seed)
    model = Towers(*(side.shape[1] for side in pairs.tensors))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = bc.PlannedLoader(
        pairs,
        batch_size=32,
        selector=selector,
        temperature=TEMPERATURE,
        replan_every=replan_every,
        seed=seed,
    )
    for epoch in range(epochs):
        if fill and epoch:  # the paper's way; what was recorded while training is free
            loader.fill(model, batch_size=512)
        for x, y in loader:
            u, v = model(x, y)
            loss = bc.contrastive_loss(
                u, v, temperature=loader.temperature, background=loader.background
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loader.record(u, v)
    return model


def main() -> None:
    """Trains twice and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pairs",
        help="file with u and v, or train_u, train_v, test_u and test_v (default: made up)",
    )
    parser.add_argument("--epochs", type=int, default=6, help="default: %(default)s")
    parser.add_argument(
        "--replan-every",
        type=int,
        default=1,
        help="plan every so many epochs (default: %(default)s)",
    )
    parser.add_argument(
        "--fill", action="store_true", help="plan from a fresh pass, not from what was recorded"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    options = parser.parse_args()
    pairs, held_out = read(options.pairs)
    print(f"{len(pairs):,} pairs to learn from, retrieval among {len(held_out):,} others")
    for selector in (bc.Shuffle(), bc.Cut()):
        settings = {
            "epochs": options.epochs,
            "replan_every": options.replan_every,
            "fill": options.fill,
            "seed": options.seed,
        }
        model = train(pairs, selector, **settings)
        with torch.no_grad():
            score = retrieval(*model(*held_out.tensors))
        print(f"{type(selector).__name__:8} top-1 {score.top1:.1%}, top-5 {score.top5:.1%}")


if __name__ == "__main__":
    main()
