"""The last embedding seen of each sample."""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from batchcut._errors import check_integer, invalid, wrong_type

NEVER = -1
ROWS_AT_ONCE = 65_536


class EmbeddingBank:
    """The last embeddings u, v: (dim,) seen of each of n samples, recorded for free while training.

    A sample of which nothing was recorded has age -1. A row that is not finite, or zero, is not recorded: the last good
    one stays, and a warning says so once.

    Args:
        n: the number of samples.
        dim: the width of an embedding.
        dtype: torch.float32, or torch.float16 for half of the memory: 4 n dim bytes in all.
        device: where the bank lives. On the device that trains, recording makes no step wait for a copy.
        path: a file to map into memory, for banks larger than it; made if it is not there, gone on with if it is.

    Attributes:
        u: (n, dim) the embeddings of one side.
        v: (n, dim) those of the other.
        recorded_at: (n,) the clock at the last record of each sample, -1 where there is none.
        clock: how many records were made.
    """

    def __init__(
        self,
        n: int,
        dim: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
        path: str | Path | None = None,
    ) -> None:
        self.n = check_integer("n", n, at_least=2)
        self.dim = check_integer("dim", dim, at_least=1)
        if dtype not in (torch.float32, torch.float16):
            raise invalid("dtype", "be torch.float32 or torch.float16", dtype)
        self.device = torch.device(device)
        if path is None:
            self.u, self.v = torch.zeros(2, self.n, self.dim, dtype=dtype, device=self.device)
        else:
            if self.device.type != "cpu":
                raise invalid("device", "be 'cpu' for a bank in a file", device)
            self.u, self.v = _mapped(Path(path), self.n, self.dim, dtype)
        self.recorded_at = torch.full((self.n,), NEVER, device=self.device)
        self.clock = 0
        self._warned = False

    @property
    def dtype(self) -> torch.dtype:
        """The type in which embeddings are kept."""
        return self.u.dtype

    @property
    def seen(self) -> Tensor:
        """(n,) whether anything was recorded of each sample."""
        return self.recorded_at >= 0

    @property
    def coverage(self) -> float:
        """The share of the samples of which something was recorded."""
        return float(self.seen.double().mean())

    @property
    def age(self) -> Tensor:
        """(n,) how many records ago each sample was recorded; 0 for the newest, -1 for never."""
        return torch.where(self.seen, self.clock - 1 - self.recorded_at, NEVER)

    @property
    def nbytes(self) -> int:
        """Memory of the embeddings."""
        return 2 * self.n * self.dim * self.u.element_size()

    def __len__(self) -> int:
        return self.n

    @torch.no_grad()
    def record(self, index: Tensor, u: Tensor, v: Tensor) -> None:
        """Keeps the embeddings u: (b, dim) and v: (b, dim) of the samples index: (b,)."""
        index = self._check_index(index)
        self._check_rows("u", u, len(index))
        self._check_rows("v", v, len(index))
        u, v = (x.detach().to(self.device, self.dtype) for x in (u, v))
        index = index.to(self.device)
        good = _usable(u) & _usable(v)
        if self.device.type != "cpu" or bool(good.all()):
            # Without a value that the host would have to wait for.
            self.u[index] = torch.where(good[:, None], u, self.u[index])
            self.v[index] = torch.where(good[:, None], v, self.v[index])
            self.recorded_at[index] = torch.where(good, self.clock, self.recorded_at[index])
        else:
            self._warn(int((~good).sum()))
            kept = index[good]
            self.u[kept], self.v[kept] = u[good], v[good]
            self.recorded_at[kept] = self.clock
        self.clock += 1

    @torch.no_grad()
    def fill(
        self,
        embed: Callable[..., tuple[Tensor, Tensor]],
        loader: Iterable[tuple[Tensor, Any]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Records every sample of a loader by a pass without gradient, as the paper does before each epoch.

        Args:
            embed: called with the parts of each batch, gives u and v; a model, in the mode that it is in.
            loader: yields (index, batch), as a loader over `Indexed` does.
            progress: called with the number of samples recorded so far.
        """
        done = 0
        for index, batch in loader:
            parts = batch if isinstance(batch, (tuple, list)) else (batch,)
            self.record(index, *embed(*parts))
            done += len(index)
            if progress is not None:
                progress(done)

    @torch.no_grad()
    def join(self, group: dist.ProcessGroup | None = None) -> None:
        """Gives all processes the newest record of each sample that any of them holds.

        Called by all processes together; between epochs, where each of them has seen other samples. Of records equally
        new that of the lowest rank is taken.
        """
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        clocks = [torch.empty_like(self.recorded_at) for _ in range(world)]
        dist.all_gather(clocks, self.recorded_at, group=group)
        newest, owner = torch.stack(clocks).max(dim=0)
        mine = owner == rank
        for start in range(0, self.n, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            for side in (self.u, self.v):
                # All but the owner add zeros. In float32, since not every backend adds float16.
                part = torch.where(mine[rows, None], side[rows].float(), 0.0)
                dist.all_reduce(part, group=group)
                side[rows] = part.to(self.dtype)
        self.recorded_at = newest
        clock = torch.tensor(self.clock, device=self.device)
        dist.all_reduce(clock, op=dist.ReduceOp.MAX, group=group)
        self.clock = int(clock)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on; tensors, not copied."""
        return {"u": self.u, "v": self.v, "recorded_at": self.recorded_at, "clock": self.clock}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state of a bank of the same size."""
        for name in ("u", "v"):
            if tuple(state[name].shape) != (self.n, self.dim):
                raise invalid("state", f"be of a bank of shape {(self.n, self.dim)}", tuple(state[name].shape))
        self.u.copy_(state["u"])
        self.v.copy_(state["v"])
        self.recorded_at.copy_(state["recorded_at"])
        self.clock = int(state["clock"])

    def _check_index(self, index: Tensor) -> Tensor:
        if not isinstance(index, Tensor):
            raise wrong_type("index", "be a torch tensor", index)
        if index.is_floating_point() or index.dtype == torch.bool:
            raise TypeError(f"index must hold integers; got {index.dtype}")
        if index.ndim != 1:
            raise invalid("index", "have one dimension", tuple(index.shape))
        if index.device.type == "cpu" and len(index):
            low, high = int(index.min()), int(index.max())
            if low < 0 or high >= self.n:
                raise invalid("index", f"lie in 0 to {self.n - 1}", low if low < 0 else high)
        return index.long()

    def _check_rows(self, name: str, x: Tensor, rows: int) -> None:
        if not isinstance(x, Tensor):
            raise wrong_type(name, "be a torch tensor", x)
        if not x.is_floating_point():
            raise TypeError(f"{name} must have a floating dtype; got {x.dtype}")
        if tuple(x.shape) != (rows, self.dim):
            raise invalid(
                name, f"have shape {(rows, self.dim)}, a row of the bank's width for each index", tuple(x.shape)
            )

    def _warn(self, count: int) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{count} embeddings were NaN, infinite or zero and were not recorded; the bank keeps the last good ones "
                "(said once)",
                RuntimeWarning,
                stacklevel=3,
            )

    def __repr__(self) -> str:
        return f"EmbeddingBank({self.n}, {self.dim}, dtype={self.dtype}, coverage={self.coverage:.1%})"


def _usable(x: Tensor) -> Tensor:
    """(b,) whether a row is finite and not zero."""
    return torch.isfinite(x).all(dim=1) & (x != 0).any(dim=1)


def _mapped(path: Path, n: int, dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    kind = np.float16 if dtype == torch.float16 else np.float32
    size = 2 * n * dim * np.dtype(kind).itemsize
    if path.exists() and path.stat().st_size != size:
        raise invalid("path", f"hold {size} bytes, a bank of this size", f"{path.stat().st_size} bytes in {path}")
    array = np.memmap(path, dtype=kind, mode="r+" if path.exists() else "w+", shape=(2, n, dim))
    u, v = torch.from_numpy(array)
    return u, v
