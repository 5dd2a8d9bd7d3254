"""How long training waits for plans, with `plan_ahead` and without, and the retrieval that comes out; for overhead.py.

A loop waits where the first batch of a planned epoch is drawn, and, planning ahead, also at the step where what the
bank holds is copied: what these take beyond the median of all others. How much slower the steps are beside which a plan
is made shows in the seconds of an epoch.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import batchcut as bc
from batchcut.evaluation import retrieval

MOST_WAITED = {"images": 0.005, "pairs": 0.03}

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is trained: data, a model for each seed, how it is planned, and what is told apart in the end.

    Attributes:
        plan_ahead: the share of an epoch that is longer than a plan takes beside the training.
    """

    name: str
    data: TensorDataset
    held: tuple[Tensor, ...]
    model: Callable[[int], nn.Module]
    rate: float
    settings: dict[str, Any]
    plan_ahead: float


def waiting_rows(trainings: list[Training], *, seeds: int, epochs: int) -> Iterator[Row]:
    """A row for each training, seed and way to plan, as they come."""
    for training in trainings:
        for seed in range(seeds):
            for plan_ahead in (0.0, training.plan_ahead):
                yield _run(training, seed=seed, epochs=epochs, plan_ahead=plan_ahead)


def _run(training: Training, *, seed: int, epochs: int, plan_ahead: float) -> Row:
    model = training.model(seed)
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.rate)
    loader = bc.PlannedLoader(training.data, seed=seed, plan_ahead=plan_ahead, **training.settings)
    seconds, loads, records = [], [], []
    for _ in range(epochs):
        begin = time.perf_counter()
        drawn, recorded = _epoch(loader, model, optimizer)
        seconds.append(time.perf_counter() - begin)
        loads.append(drawn)
        records.append(recorded)
    # The first epoch is shuffled; what is begun in the last one is for an epoch that does not come.
    waits = [max(drawn[0] - statistics.median(drawn), 0.0) for drawn in loads[1:]]
    if plan_ahead:
        waits += [max(recorded) - statistics.median(recorded) for recorded in records[:-1]]
    waited, epoch = sum(waits) / (epochs - 1), statistics.mean(seconds)
    with torch.no_grad():
        model.eval()
        top1 = retrieval(*model(*training.held)).top1
    facts = {"waited": waited, "epoch": epoch, "share": waited / epoch, "top1": top1}
    return {"set": training.name, "seed": seed, "plan_ahead": plan_ahead} | facts


def _epoch(
    loader: bc.PlannedLoader, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[list[float], list[float]]:
    """The seconds of each batch that was drawn and of each record, over one epoch."""
    loads: list[float] = []
    records: list[float] = []
    batches = iter(loader)
    while True:
        start = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return loads, records
        loads.append(time.perf_counter() - start)
        u, v = model(*batch)
        loss = bc.contrastive_loss(u, v, temperature=loader.temperature, background=loader.background)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        start = time.perf_counter()
        loader.record(u, v)
        records.append(time.perf_counter() - start)


def waiting_summary(rows: list[Row]) -> list[Row]:
    """Means over seeds, for each set with and without, and whether the bars are cleared."""
    summary = []
    for name in dict.fromkeys(row["set"] for row in rows):
        for ahead in sorted({row["plan_ahead"] for row in rows if row["set"] == name}):
            part = [row for row in rows if (row["set"], row["plan_ahead"]) == (name, ahead)]
            means = {key: statistics.mean(row[key] for row in part) for key in ("waited", "epoch", "share", "top1")}
            scores = [row["top1"] for row in part]
            spread = statistics.stdev(scores) if len(scores) > 1 else None
            summary.append({"set": name, "plan_ahead": ahead, "seeds": len(part), "spread": spread} | means)
        plain, ahead_row = summary[-2:]
        ahead_row["most"] = MOST_WAITED[name]
        ahead_row["in_time"] = ahead_row["share"] <= MOST_WAITED[name]
        ahead_row["as_good"] = plain["spread"] is not None and ahead_row["top1"] >= plain["top1"] - plain["spread"]
    return summary
