"""A stream without indices: pools of ten batches, handed out as ten hard ones; and OSGD."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

import batchcut as bc


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """Pairs that come one after the other, as from a WebDataset."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        random = torch.Generator().manual_seed(0)
        kinds = torch.randn(40, 16, generator=random)
        for _ in range(960):
            kind = kinds[int(torch.randint(40, (1,), generator=random))]
            x, y = kind + 0.5 * torch.randn(2, 16, generator=random)
            yield x, y


class TwoViews(nn.Module):
    """One encoder for both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(16, 16)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings of x: (b, 16) and y: (b, 16)."""
        return self.encoder(x), self.encoder(y)


torch.manual_seed(0)
model = TwoViews()
loader = DataLoader(Stream(), batch_size=32)


def loss_of(batch: list[Tensor]) -> Tensor:
    """The loss of a batch."""
    return bc.contrastive_loss(*model(*batch))


with torch.no_grad():
    came = torch.stack([loss_of(batch) for batch in loader])
    planned = torch.stack([loss_of(batch) for batch in bc.StreamPlanner(loader, model, pool=10)])
losses = f"mean loss {came.mean():.2f} as they come, {planned.mean():.2f} planned"
print(f"{len(planned)} batches of a stream: {losses}")

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in bc.StreamPlanner(loader, model, pool=10):
    optimizer.zero_grad()
    loss_of(batch).backward()
    optimizer.step()

for step in bc.sampling.HardestOf(loader, loss_of, k=5, q=2):  # OSGD: two hardest of five batches
    optimizer.zero_grad()
    torch.stack([loss_of(batch) for batch in step]).mean().backward()
    optimizer.step()
last = loss_of(next(iter(loader))).item()
print(f"after {len(planned)} steps on planned batches and six of OSGD: {last:.2f}")
