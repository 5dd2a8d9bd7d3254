"""What batchcut adds to an epoch: recording, planning and sampling, beside the same epoch with a shuffled DataLoader.

A small ResNet learns from two views of CIFAR-100 images at B = 32. Both loops run in one process, in turns of a few
steps, so that a machine busy with other work slows both alike; a part of the steps of an epoch is timed, and their
medians count for all. The plan is that of the whole epoch. The share is given in seconds by the clock and in seconds
of the processors, which other work does not stretch; the larger counts.

What a background takes of a step, where it is on, stands beside them.

With `--seeds` it also trains whole epochs on images and on pairs of features, with plans made between two epochs and
with plans made ahead in the background (`plan_ahead`, a tenth of an epoch of images and half of one of pairs). It shows
how long training waits for them (loops/waiting.py).

The bars: together at most 5 % of an epoch; recording alone under 2 % of a step; a float16 bank takes 4 N d bytes.
Ahead, training waits at most 0.5 % of an epoch on images and 3 % on pairs, with the same retrieval but for the spread
of the seeds.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad, relu
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops import towers
from benchmarks.loops.waiting import Training, waiting_rows, waiting_summary
from benchmarks.planning.cifar import read_images

import batchcut as bc
from batchcut.losses import Background, nt_xent
from batchcut.sampling import _background

MOST_ADDED, MOST_RECORDING = 0.05, 0.02
DIM, TURN, WARM_UP = 128, 5, 5


class Block(nn.Module):
    """Two 3×3 convolutions and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))
        self.around = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Maps x: (b, inputs, h, w) to (b, outputs, h / stride, w / stride)."""
        return relu(self.second(self.first(x)) + self.around(x))


def small_resnet() -> nn.Sequential:
    """A ResNet-8 for 32×32 images (16, 32 and 64 channels) with a head of 128 dimensions; the smallest in use."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Block(16, 16, 1),
        Block(16, 32, 2),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, DIM),
    )


class TwoViews(nn.Module):
    """Crops, flips and brightness, drawn anew for each view; then the encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = small_resnet()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Embeds two views of images: (b, 3, 32, 32), bytes."""
        rows = self.encoder(torch.cat([view(images), view(images)]))
        u, v = normalize(rows, dim=1).chunk(2)
        return u, v


def view(images: Tensor) -> Tensor:
    """A random view of images: (b, 3, 32, 32), bytes."""
    x = pad(images.float() / 255, (4, 4, 4, 4))
    top, left = torch.randint(0, 9, (2,)).tolist()
    x = x[:, :, top : top + 32, left : left + 32]
    x = torch.where((torch.rand(len(x)) < 0.5)[:, None, None, None], x.flip(3), x)
    return x * (0.6 + 0.8 * torch.rand(len(x), 1, 1, 1)) - 0.5


@dataclass
class Loop:
    """A training loop that can be run a few steps at a time, and what each part of it takes."""

    loader: DataLoader[Any]
    bank: bc.EmbeddingBank | None
    model: TwoViews
    load: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    record: list[float] = field(default_factory=list)
    cpu_load: list[float] = field(default_factory=list)
    cpu_step: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.batches: Iterator[Any] = iter(self.loader)
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)

    def run(self, steps: int) -> float:
        """Takes some steps, and returns the seconds they took."""
        begin = time.perf_counter()
        for _ in range(steps):
            start, cpu = time.perf_counter(), time.process_time()
            batch = next(self.batches)
            self.load.append(time.perf_counter() - start)
            self.cpu_load.append(time.process_time() - cpu)
            self._train(batch)
            self.step.append(time.perf_counter() - start)
            self.cpu_step.append(time.process_time() - cpu)
        return time.perf_counter() - begin

    def _train(self, batch: Any) -> None:
        index, (images,) = batch if self.bank is not None else (torch.empty(0), batch)
        u, v = self.model(images)
        loss = bc.contrastive_loss(u, v, temperature=0.1)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        if self.bank is not None:
            start = time.perf_counter()
            self.bank.record(index, u, v)
            self.record.append(time.perf_counter() - start)


def background_seconds(sampler: bc.PlannedBatchSampler, loop: Loop, repeats: int = 200) -> float:
    """What a background takes of a step: its draw, and SimCLR's loss forth and back with it, less without it.

    It is drawn with its largest share, whatever the embeddings of this bank would deserve.
    """
    index, (images,) = next(loop.batches)
    u, v = (side.detach().requires_grad_() for side in loop.model(images))

    def loss_and_gradient(background: Background | None) -> None:
        torch.autograd.grad(nt_xent(u, v, temperature=0.1, background=background), (u, v))

    seconds: tuple[list[float], list[float]] = ([], [])
    with mock.patch.object(_background, "share_of", return_value=torch.tensor(_background.LARGEST_SHARE)):
        for step in range(repeats):
            for on in (False, True):
                start = time.perf_counter()
                loss_and_gradient(sampler.background_of(index, step=step) if on else None)
                seconds[on].append(time.perf_counter() - start)
        assert sampler.background_of(index, step=0) is not None
    without, with_it = map(statistics.median, seconds)
    return with_it - without


def images_from(folder: Path | None, count: int) -> Tensor:
    """The first images of CIFAR-100, (count, 3, 32, 32) bytes; noise of the same shape without a folder."""
    if folder is None:
        print("images    noise in the shape of CIFAR-100 (give --cifar for the real ones)")
        return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, 3, 32, 32), np.uint8))
    rows = read_images(folder)[:count]
    print(f"images    {len(rows):,} of CIFAR-100, from {folder}")
    return torch.from_numpy(rows)


def take_turns(plain: Loop, planned: Loop, steps: int) -> list[float]:
    """Runs both loops for as many steps, in turns, each first every other time; returns the ratios of the turns."""
    ratios = []
    for turn, begin in enumerate(range(0, steps, TURN)):
        now = min(TURN, steps - begin)
        order = (plain, planned) if turn % 2 == 0 else (planned, plain)
        seconds = {id(loop): loop.run(now) for loop in order}
        ratios.append(seconds[id(planned)] / seconds[id(plain)])
    return ratios


def main() -> None:
    """Runs both loops for an epoch and prints what was added."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", type=Path, help="the folder cifar-100-python; without it, noise of the same shape")
    parser.add_argument("--images", type=int, default=15_000, help="how many at most (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=150, help="steps to time of each loop (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=0, help="of whole trainings, for the waiting (default: none)")
    parser.add_argument("--epochs", type=int, default=4, help="of each of them, at least 2 (default: %(default)s)")
    parser.add_argument("--pairs", default="functions", help="an .npz file, or functions (default: %(default)s)")
    parser.add_argument("--pair-count", type=int, help="how many pairs at most (default: all)")
    parser.add_argument("--json", type=Path, help="where to write all figures, for benchmarks/tables.py")
    options = parser.parse_args()
    torch.manual_seed(0)

    images = images_from(options.cifar, options.images)
    data, model = TensorDataset(images), TwoViews()
    bank = bc.EmbeddingBank(len(images), DIM)
    sampler = bc.PlannedBatchSampler(bank, batch_size=options.batch_size, selector=bc.Cut(), shuffled_epochs=0)
    plain = Loop(DataLoader(data, options.batch_size, shuffle=True, drop_last=True), None, model)
    plain.run(WARM_UP)
    bank.fill(model, DataLoader(bc.Indexed(data), 256))
    bc.Cut()(bank.u[:4096], bank.v[:4096], batch_size=options.batch_size)  # compiles, once for ever

    plain = Loop(DataLoader(data, options.batch_size, shuffle=True, drop_last=True), None, model)
    planned = Loop(DataLoader(bc.Indexed(data), batch_sampler=sampler), bank, model)
    ratios = take_turns(plain, planned, min(options.steps, len(sampler)))
    half = bc.EmbeddingBank(len(images), DIM, dtype=torch.float16)
    facts = measured(plain, planned, ratios, len(sampler)) | {
        "background": background_seconds(sampler, planned),
        "images": len(images),
        "real": options.cifar is not None,
        "batch_size": options.batch_size,
        "bank_bytes": half.nbytes,
        "bank_right": half.nbytes == half.u.untyped_storage().nbytes() == 4 * len(images) * DIM,
    }
    report(facts)
    if options.seeds:
        trainings = [on_images(images, options.batch_size), on_pairs(options.pairs, options.pair_count)]
        rows = list(waiting_rows(trainings, seeds=options.seeds, epochs=options.epochs))
        facts["waiting"] = {"epochs": options.epochs, "rows": rows, "summary": waiting_summary(rows)}
        report_waiting(facts["waiting"]["summary"])
    if options.json is not None:
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def measured(plain: Loop, planned: Loop, ratios: list[float], steps: int) -> dict[str, Any]:
    """The parts and the whole in seconds, for an epoch of so many steps, and the shares that the bars are about."""
    step, record, with_plan = (statistics.median(x) for x in (plain.step, planned.record, planned.load))
    planning = planned.load[0] - with_plan
    recording, sampling = steps * record, steps * (with_plan - statistics.median(plain.load))
    cpu_planning = planned.cpu_load[0] - statistics.median(planned.cpu_load)
    cpu_epoch = steps * statistics.median(plain.cpu_step)
    return {
        "steps": steps,
        "timed": len(plain.step),
        "step": step,
        "record": record,
        "epoch": steps * step,
        "recording": recording,
        "planning": planning,
        "cpu_planning": cpu_planning,
        "sampling": sampling,
        "side_by_side": statistics.median(ratios) - 1,
        "added": (recording + planning + sampling) / (steps * step),
        "cpu_added": (recording + cpu_planning + sampling) / cpu_epoch,
        "recording_share": record / step,
        "most_added": MOST_ADDED,
        "most_recording": MOST_RECORDING,
    }


def report(facts: dict[str, Any]) -> None:
    """Prints what was measured, and whether the bars are cleared."""
    timed = f"{facts['steps']} steps of {1000 * facts['step']:.1f} ms; {facts['timed']} of each loop timed"
    print(f"epoch     {facts['epoch']:7.2f} s  ({timed})")
    print(f"recording {facts['recording']:7.3f} s  ({1000 * facts['record']:.3f} ms a step)")
    processors = f"{facts['cpu_planning']:.3f} s of the processors"
    print(f"planning  {facts['planning']:7.3f} s  (the whole set, once; {processors})")
    print(f"sampling  {facts['sampling']:7.3f} s  (loading with the plan less loading without)")
    beside = facts["background"]
    print(f"background {1000 * beside:.3f} ms a step where it is on, {beside / facts['step']:.2%} of it")
    print(f"side by side, turn by turn: {facts['side_by_side']:+.2%} without the planning (noise included)")
    added, cpu_added, share = facts["added"], facts["cpu_added"], facts["recording_share"]
    right = verdict(max(added, cpu_added) <= MOST_ADDED)
    print(f"{right}: {added:.2%} added to an epoch, {cpu_added:.2%} of the processors' time, at most {MOST_ADDED:.0%}")
    print(f"{verdict(share < MOST_RECORDING)}: recording takes {share:.2%} of a step, under {MOST_RECORDING:.0%}")
    print(f"{verdict(facts['bank_right'])}: a float16 bank takes {facts['bank_bytes']:,} bytes = 4 N d")


def on_images(images: Tensor, batch_size: int) -> Training:
    """Two views of images, a tenth of which is held out."""
    held = len(images) // 10

    def model(seed: int) -> TwoViews:
        torch.manual_seed(seed)
        return TwoViews()

    settings = {"batch_size": batch_size, "temperature": 0.1, "average_views": True}
    return Training(
        name="images",
        data=TensorDataset(images[:-held]),
        held=(images[-held:],),
        model=model,
        rate=1e-3,
        settings=settings,
        plan_ahead=0.1,
    )


class TwoTowers(nn.Module):
    """The towers of the recipe `pairs`, as a module."""

    def __init__(self, dims: tuple[int, int], seed: int) -> None:
        super().__init__()
        self.towers = nn.ModuleList(towers.Towers(dims, seed=seed).towers)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings of features x: (b, d) and y: (b, d')."""
        return self.towers[0](x), self.towers[1](y)


def on_pairs(name: str, count: int | None) -> Training:
    """Pairs of features, whose steps take a millisecond or two, by the quick search of the recipe."""
    split = towers.load(name, most=count)
    dims = (split.train[0].shape[1], split.train[1].shape[1])
    settings = {"batch_size": 32, "temperature": towers.TAU, "selector": bc.Cut(rounds=1)}
    return Training(
        name="pairs",
        data=TensorDataset(*split.train),
        held=tuple(split.held),
        model=lambda seed: TwoTowers(dims, seed),
        rate=towers.PEAK,
        settings=settings,
        plan_ahead=0.5,
    )


def report_waiting(summary: list[dict[str, Any]]) -> None:
    """Prints how long training waits with and without planning ahead, and whether the bars are cleared."""
    for row in summary:
        how = f"ahead by {row['plan_ahead']:.0%}" if row["plan_ahead"] else "between epochs"
        spread = "" if row["spread"] is None else f" ± {row['spread']:.2%}"
        waits = f"waits {row['waited']:.3f} s of {row['epoch']:.2f} s, {row['share']:.2%}"
        print(f"{row['set']:9} {how:15} {waits}; top-1 {row['top1']:.2%}{spread}")
        if row["plan_ahead"]:
            print(f"{verdict(row['in_time'])}: training waits for plans at most {row['most']:.1%} of an epoch")
            if row["spread"] is not None:
                print(f"{verdict(row['as_good'])}: retrieval within the spread of the seeds")


def verdict(right: bool) -> str:
    """PASS or FAIL."""
    return "PASS" if right else "FAIL"


if __name__ == "__main__":
    main()
