"""A training loop with accelerate that says which samples each step was given; as a script, in two processes."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import DataLoaderConfiguration
from tests.integrations._runs import DIM, B, Encoder, Pairs, leave
from torch.utils.data import DataLoader

import batchcut as bc
from batchcut.integrations import prepare_loader, sharding_of

Seen = list[tuple[int, list[int]]]


class Run:
    """A model and a loader, prepared; each run of it says what it was given."""

    def __init__(self, *, config: DataLoaderConfiguration | None = None, workers: int = 0, **settings: Any) -> None:
        self.accelerator = Accelerator(cpu=True, dataloader_config=config)
        self.bank = bc.EmbeddingBank(len(Pairs()), DIM)
        self.sampler = bc.PlannedBatchSampler(
            self.bank, batch_size=B, sharding=sharding_of(self.accelerator), **settings
        )
        loader = DataLoader(bc.Indexed(Pairs()), batch_sampler=self.sampler, num_workers=workers)
        self.loader = prepare_loader(self.accelerator, loader)
        encoder = Encoder()
        self.encoder, self.optimizer = self.accelerator.prepare(encoder, torch.optim.SGD(encoder.parameters(), 0.5))
        self.seen: Seen = []

    def step(self, epoch: int, index: torch.Tensor, batch: Any) -> None:
        x, y, own = batch
        self.seen.append((epoch, own.tolist()))
        u, v = self.encoder(x), self.encoder(y)
        loss = bc.contrastive_loss(u, v, temperature=0.1)
        self.bank.record(index, u, v)
        self.optimizer.zero_grad()
        self.accelerator.backward(loss)
        self.optimizer.step()

    def train(
        self, *, epochs: int = 3, save: dict[int, Path] | None = None, done: int = 0, stateful: bool = False
    ) -> Seen:
        """Some epochs, from the step `done` on, with a state saved after some steps."""
        first, skipped = divmod(done, len(self.loader))
        for epoch in range(first, epochs):
            self.loader.set_epoch(epoch)  # type: ignore[attr-defined]
            skips = epoch == first and skipped and not stateful
            for index, batch in skip_first_batches(self.loader, skipped) if skips else self.loader:
                self.step(epoch, index, batch)
                if save and len(self.seen) in save:
                    self.accelerator.save_state(str(save[len(self.seen)]))
        return self.seen

    def load(self, folder: Path) -> "Run":
        self.accelerator.load_state(str(folder))
        return self


def refusal(config: DataLoaderConfiguration | None = None, *, by_accelerate: bool = False, **settings: Any) -> str:
    """What comes of preparing a loader, by accelerate itself or by us."""
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    sampler = bc.PlannedBatchSampler(bc.EmbeddingBank(len(Pairs()), DIM), batch_size=B, **settings)
    loader = DataLoader(Pairs(), batch_sampler=sampler)
    try:
        list(accelerator.prepare(loader) if by_accelerate else prepare_loader(accelerator, loader))
    except ValueError as error:
        return str(error)
    return "none"


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")  # Those of the frameworks are the business of the runs in one process.
    torch.set_num_threads(1)
    outcome: dict[str, Any] = {}
    kinds: list[tuple[str, DataLoaderConfiguration | None, dict[str, Any]]] = [
        ("whole", None, {}),
        ("short", None, {"leftover": "short"}),
        ("split", DataLoaderConfiguration(split_batches=True), {}),
    ]
    for name, config, settings in kinds:
        run = Run(config=config, **settings)
        seen = run.train(save={4: folder / name})
        assert run.sampler.plan is not None
        outcome[name] = {"seen": seen, "plan": [row.tolist() for row in run.sampler.plan]}
        outcome[name]["resumed"] = Run(config=config, **settings).load(folder / name).train(done=4)
    mine = sharding_of(Accelerator(cpu=True), mode="whole")
    outcome["left to accelerate"] = {
        "untold": refusal(by_accelerate=True),
        "alone": refusal(by_accelerate=True, sharding=bc.Sharding()),
        "whole": refusal(by_accelerate=True, sharding=mine),
        "split": refusal(by_accelerate=True, sharding=replace(mine, mode="split")),
        "dealt": refusal(by_accelerate=True, sharding=replace(mine, mode="dealt")),
    }
    outcome["another process"] = refusal(sharding=bc.Sharding(rank=0, world=3))
    outcome["not split"] = refusal(DataLoaderConfiguration(split_batches=True), sharding=mine)
    dispatched = DataLoaderConfiguration(dispatch_batches=True)
    outcome["dispatched"] = refusal(dispatched, by_accelerate=True, sharding=mine)
    leave(folder, outcome)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
