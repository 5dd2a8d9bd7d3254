"""The same with torchdata's StatefulDataLoader, which counts for you, also with workers."""

import copy

import torch
from torch.nn.functional import normalize
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

import batchcut as bc

torch.manual_seed(0)
x = normalize(torch.randn(200, 8), dim=1)
dataset = bc.Indexed(TensorDataset(x, normalize(x + 0.1 * torch.randn(200, 8), dim=1)))


def new() -> tuple[bc.EmbeddingBank, StatefulDataLoader]:
    """A bank and a loader that knows nothing yet."""
    bank = bc.EmbeddingBank(len(dataset), dim=8)
    sampler = bc.PlannedBatchSampler(bank, batch_size=20, seed=0)
    return bank, StatefulDataLoader(dataset, batch_sampler=sampler, num_workers=2)


bank, loader = new()
state = {}
whole = []
for _ in range(3):
    for index, (u, v) in loader:
        bank.record(index, u, v)
        whole.append(index.tolist())
        if len(whole) == 14:  # in the second epoch, after four batches
            state = copy.deepcopy({"bank": bank.state_dict(), "loader": loader.state_dict()})

bank, loader = new()
bank.load_state_dict(state["bank"])
loader.load_state_dict(state["loader"])
rest = []
for _ in range(1, 3):
    for index, (u, v) in loader:
        bank.record(index, u, v)
        rest.append(index.tolist())

print(f"{len(rest)} batches left; the same as without a stop: {rest == whole[14:]}")
