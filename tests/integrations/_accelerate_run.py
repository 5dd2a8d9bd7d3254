"""A training loop with accelerate that says which samples each step was given; as a script, in two processes."""

import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from tests.integrations._runs import DIM, B, Encoder, Pairs, end_together, leave
from torch.utils.data import DataLoader

import batchcut as bc
from batchcut.integrations import prepare_loader, sharding_of

Seen = list[tuple[int, list[int]]]


class Run:
    """A model and a loader, prepared; each run of it says what it was given."""

    def __init__(self, *, config: DataLoaderConfiguration | None = None, workers: int = 0, **settings: Any) -> None:
        self.accelerator = Accelerator(cpu=True, dataloader_config=config)
        loader = bc.PlannedLoader(Pairs(), batch_size=B, num_workers=workers, **settings)
        self.loader = prepare_loader(self.accelerator, loader)
        encoder = Encoder()
        self.encoder, self.optimizer = self.accelerator.prepare(encoder, torch.optim.SGD(encoder.parameters(), 0.5))
        self.seen: Seen = []

    def step(self, epoch: int, batch: Any) -> None:
        x, y, own = batch
        self.seen.append((epoch, own.tolist()))
        u, v = self.encoder(x), self.encoder(y)
        loss = bc.contrastive_loss(u, v, temperature=0.1)
        self.loader.record(u, v)
        self.optimizer.zero_grad()
        self.accelerator.backward(loss)
        self.optimizer.step()

    def train(self, *, epochs: int = 3, save: dict[int, Path] | None = None, told: bool = True) -> Seen:
        """Some epochs, or what is left of them, with a state saved after some steps."""
        for epoch in range(self.loader.epoch, epochs):
            if told:
                self.loader.set_epoch(epoch)
            for batch in self.loader:
                self.step(epoch, batch)
                if save and len(self.seen) in save:
                    self.accelerator.save_state(str(save[len(self.seen)]))
        return self.seen

    def load(self, folder: Path) -> "Run":
        self.accelerator.load_state(str(folder))
        return self


def warned_of_by_accelerate() -> list[str]:
    """What is said where accelerate itself prepares a loader over a sampler that shares its batches already."""
    accelerator = Accelerator(cpu=True)
    bank = bc.EmbeddingBank(len(Pairs()), DIM)
    sampler = bc.PlannedBatchSampler(bank, batch_size=B, sharding=sharding_of(accelerator))
    loader = accelerator.prepare(DataLoader(bc.Indexed(Pairs()), batch_sampler=sampler))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", RuntimeWarning)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            for index, (x, y, _) in loader:
                bank.record(index, x[:, :DIM], y[:, :DIM])
    return [str(warning.message) for warning in told if warning.category is RuntimeWarning]


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")  # Those of the frameworks are the business of the runs in one process.
    torch.set_num_threads(1)
    outcome: dict[str, Any] = {"dealt twice": warned_of_by_accelerate()}
    kinds: list[tuple[str, DataLoaderConfiguration | None, dict[str, Any]]] = [
        ("whole", None, {}),
        ("short", None, {"drop_last": False}),
        ("split", DataLoaderConfiguration(split_batches=True), {}),
    ]
    for name, config, settings in kinds:
        run = Run(config=config, **settings)
        seen = run.train(save={4: folder / name})
        assert run.loader.plan is not None
        outcome[name] = {"seen": seen, "plan": [row.tolist() for row in run.loader.plan]}
        outcome[name]["resumed"] = Run(config=config, **settings).load(folder / name).train()
    leave(folder, outcome)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    end_together()
