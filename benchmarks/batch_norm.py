"""Whether planned batches get in the way of batch norm: a small encoder on digits, with it and without.

A planned batch holds samples that resemble each other, so its variance is smaller than that of the set. Batch norm
divides by it while training, and by its running mean in the test. The same encoder with group norm, which knows no
batch, shows what planning does by itself. Each model with batch norm is scored as it is and, a second time, with
statistics estimated anew from shuffled batches; the share says how large its own variances are, in the last layer,
beside those. A few minutes on one core.
"""

import argparse
import copy
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample, normalize
from torch.utils.data import TensorDataset

import batchcut as bc
from batchcut.evaluation import retrieval

Row = dict[str, Any]

BATCH_SIZE, DIM, TEMPERATURE, DRAWS = 16, 32, 0.1, 5
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch norm": nn.BatchNorm2d,
    "group norm": lambda channels: nn.GroupNorm(4, channels),
}
ALONE: Row = {"background": False}  # by the last views, too
METHODS: dict[str, Row] = {
    "Shuffle": {"selector": bc.Shuffle(), **ALONE},
    "Cut, pool of 10, no margin": {"selector": bc.Cut(pool=10, margin=None), **ALONE},
    "Cut, no margin": {"selector": bc.Cut(margin=None), **ALONE},
    "Cut, as it comes for views": {"average_views": True},
}


def view(images: Tensor, strength: float) -> Tensor:
    """A random view of images: (b, 1, 8, 8), bytes: another cut-out and brightness of each.

    Cut-outs are smaller than the image by a share of up to `strength`, and moved by as much of half of it.
    """
    count = len(images)
    cut_out = torch.zeros(count, 2, 3)
    cut_out[:, 0, 0] = cut_out[:, 1, 1] = 1 - strength * torch.rand(count)
    cut_out[:, :, 2] = strength * (2 * torch.rand(count, 2) - 1)
    grid = affine_grid(cut_out, list(images.shape), align_corners=False)
    brightness = 0.6 + 0.8 * torch.rand(count, 1, 1, 1)
    return brightness * grid_sample(images.float() / 255, grid, align_corners=False) - 0.5


def encoder(norm: Callable[[int], nn.Module]) -> nn.Sequential:
    """Three convolutions, each with a norm, and a projection head."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((1, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False), norm(outputs), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, DIM)]
    return nn.Sequential(*layers, *head)


def embed(model: nn.Module, images: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Two views of each image as unit rows, of one forward pass."""
    u, v = normalize(model(torch.cat([view(images, strength), view(images, strength)])), dim=1).chunk(2)
    return u, v


def train(images: Tensor, norm: str, method: str, *, epochs: int, strength: float, seed: int) -> nn.Module:
    """An encoder after some epochs."""
    torch.manual_seed(seed)
    model = encoder(NORMS[norm])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    settings = {"batch_size": BATCH_SIZE, "temperature": TEMPERATURE, "seed": seed, **METHODS[method]}
    loader = bc.PlannedLoader(TensorDataset(images), **settings)
    for _ in range(epochs):
        for (batch,) in loader:
            u, v = embed(model, batch, strength)
            loss = bc.nt_xent(u, v, temperature=TEMPERATURE, background=loader.background)
            loader.record(u, v)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


@torch.no_grad()
def top1(model: nn.Module, images: Tensor, strength: float) -> float:
    """Retrieval of the other view among all, in evaluation mode; a mean over draws of views."""
    torch.manual_seed(0)
    model.eval()
    return statistics.fmean(retrieval(*embed(model, images, strength)).top1 for _ in range(DRAWS))


@torch.no_grad()
def with_new_statistics(model: nn.Module, images: Tensor, strength: float) -> nn.Module:
    """The same model, whose running means and variances are plain means over an epoch of shuffled batches."""
    torch.manual_seed(0)
    new = copy.deepcopy(model).train()
    for layer in batch_norms(new):
        layer.reset_running_stats()
        layer.momentum = None
    for rows in torch.randperm(len(images)).split(BATCH_SIZE)[:-1]:
        embed(new, images[rows], strength)
    return new


def batch_norms(model: nn.Module) -> list[nn.BatchNorm2d]:
    """Its layers of batch norm."""
    return [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]


def measure(images: Tensor, test: Tensor, norm: str, method: str, options: argparse.Namespace, seed: int) -> Row:
    """One run: its score, and with batch norm the score by new statistics and the share of the variance."""
    strength = options.strength
    model = train(images, norm, method, epochs=options.epochs, strength=strength, seed=seed)
    score = top1(model, test, strength)
    row: Row = {"norm": norm, "method": method, "seed": seed, "top1": score, "renewed": None, "variance": None}
    if batch_norms(model):
        new = with_new_statistics(model, images, strength)
        own, fair = (cast(Tensor, batch_norms(m)[-1].running_var) for m in (model, new))
        row |= {"renewed": top1(new, test, strength), "variance": float((own / fair).median())}
    return row


def summary(rows: list[Row]) -> list[Row]:
    """Of each norm and method: means over seeds, and the spread of the score."""
    result = []
    for norm, method in dict.fromkeys((row["norm"], row["method"]) for row in rows):
        runs = [row for row in rows if (row["norm"], row["method"]) == (norm, method)]
        means = {
            name: None if runs[0][name] is None else statistics.fmean(row[name] for row in runs)
            for name in ("top1", "renewed", "variance")
        }
        spread = statistics.stdev(row["top1"] for row in runs) if len(runs) > 1 else None
        result.append({"norm": norm, "method": method, "seeds": len(runs), "spread": spread, **means})
    return result


def table(rows: list[Row]) -> str:
    """The summary as text."""
    lines = [f"{'norm':12}{'batches':28}{'top-1':>8}{'spread':>8}{'new statistics':>16}{'variance share':>16}"]
    for row in rows:
        numbers = ("" if row[name] is None else f"{row[name]:.1%}" for name in ("spread", "renewed", "variance"))
        spread, renewed, variance = numbers
        lines.append(f"{row['norm']:12}{row['method']:28}{row['top1']:>8.1%}{spread:>8}{renewed:>16}{variance:>16}")
    return "\n".join(lines)


def main() -> None:
    """Trains all combinations and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--epochs", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--strength", type=float, default=0.05, help="of the views (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="where to write all figures, for benchmarks/tables.py")
    options = parser.parse_args()
    data = bc.data.load("digits")
    images, test = (torch.from_numpy(cast(bc.data.Images, part).pixels) for part in (data.train, data.test))
    rows = [
        measure(images, test, norm, method, options, seed)
        for norm in NORMS
        for method in METHODS
        for seed in range(options.seeds)
    ]
    print(table(summary(rows)))
    if options.json is not None:
        facts = {"epochs": options.epochs, "strength": options.strength, "runs": rows, "summary": summary(rows)}
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
