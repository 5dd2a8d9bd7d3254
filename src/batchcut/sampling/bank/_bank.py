"""The last embedding seen of each sample, or a mean of those seen."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from batchcut._errors import check_integer, check_share, invalid, wrong_type
from batchcut.sampling._batch import Embed, embedded, evaluating, usable
from batchcut.sampling._distributed import mean_of_all, newest_of_all, take_from_owners
from batchcut.sampling._together import Processes

from ._file import NEVER, Storage, in_file, in_memory, room_beside, width_in_file
from ._recording import write_good, write_plain
from ._state import check_bank_state

_ROWS_AT_ONCE = 65_536

_MOMENTUM_OF_VIEWS = 0.5
"""On CIFAR-100 0.5 gained 1.1 points over 0 (three seeds, ten epochs), and 0.75 no more."""


def momentum_for(*, average_views: bool) -> float:
    """The momentum of a bank that nobody has chosen: views drawn at random are averaged over epochs, too."""
    return _MOMENTUM_OF_VIEWS if average_views else 0.0


class EmbeddingBank:
    """The last embeddings u, v: (dim,) seen of each of n samples, recorded for free while training.

    A row that is not finite, or zero, is not recorded: the last good one stays, and a warning says so once; on the CPU
    immediately, elsewhere before the next plan, since reading a value would make the step wait for the device.

    Args:
        n: the number of samples.
        dim: the width of an embedding; if left out, that of the first ones recorded.
        dtype: torch.float32, or torch.float16 for half of the memory: 4 n dim bytes in all.
        device: where the bank lives; if left out, where the first embeddings recorded are, and the CPU where `dim` is
            given. On the device that trains, recording makes no step wait for a copy.
        path: a file to map into memory, for banks larger than it; made if it is not there, gone on with if it is. It
            holds all that the bank knows. Each process needs a file of its own: one that another has open is refused.
            Rows that are damaged are left out, and a warning names them.
        momentum: μ, from 0 to below 1: a record of a sample that has one keeps the mean (1 − μ) new + μ old of unit
            rows, as in PIRL (Misra and van der Maaten 2020). For views drawn at random, of which one alone says
            little; 0 keeps the last embedding.

    Attributes:
        u: (n, dim) the embeddings of one side.
        v: (n, dim) those of the other.
        recorded_at: (n,) the clock at the last record of each sample, -1 where there is none.
    """

    u: Tensor
    v: Tensor
    recorded_at: Tensor

    def __init__(
        self,
        n: int,
        dim: int | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device | None = None,
        path: str | Path | None = None,
        momentum: float = 0.0,
    ) -> None:
        self.n = check_integer("n", n, at_least=2)
        self.momentum = check_share("momentum", momentum)
        if dtype not in (torch.float32, torch.float16):
            raise invalid("dtype", "be torch.float32 or torch.float16", dtype)
        self.dtype = dtype
        self.path = None if path is None else Path(path)
        if path is not None and device is not None and torch.device(device).type != "cpu":
            raise invalid("device", "be 'cpu' for a bank in a file", repr(str(device)))
        if dim is None and self.path is not None and self.path.exists():
            dim = width_in_file(self.path)
        self._follows = dim is None and device is None and path is None  # the device of the first embeddings
        self._warned = False
        self._open(0 if dim is None else check_integer("dim", dim, at_least=1), torch.device(device or "cpu"))

    @property
    def dim(self) -> int:
        """The width of an embedding; 0 as long as it is not known."""
        return int(self.u.shape[1])

    @property
    def device(self) -> torch.device:
        """Where the bank lives."""
        return self.u.device

    @property
    def held(self) -> range:
        """Which samples have their rows here: all of them, but for banks in shards."""
        return range(self.n)

    @property
    def clock(self) -> int:
        """How many records were made."""
        return int(self._clock[0])

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
    def agreement(self) -> Tensor:
        """() the cosine of a sample's new and last embedding, the mean over about the last thousand samples recorded.

        1 where embeddings stand still, near 0 where the old ones say nothing of the new; NaN before a sample was
        recorded twice.
        """
        return self._cosines[0]

    @property
    def alignment(self) -> Tensor:
        """() the cosine of the two sides of a sample, the mean over as many; NaN before the first record."""
        return self._cosines[1]

    @property
    def nbytes(self) -> int:
        """Memory of the embeddings."""
        return self.u.nbytes + self.v.nbytes

    def __len__(self) -> int:
        return self.n

    def record(self, index: Tensor, u: Tensor, v: Tensor) -> None:
        """Keeps the embeddings u: (b, dim) and v: (b, dim) of the samples index: (b,).

        Of rows of one sample the last good one is kept.
        """
        index = self._checked_index(index)
        width = self.dim or _width_of(u)
        u, v = (self._checked_rows(name, side, (len(index), width)) for name, side in (("u", u), ("v", v)))
        if self.dim == 0 or self._follows:
            self._settle(width, u.device)
        index = index.to(self.device)
        u, v = u.to(self.device, self.dtype), v.to(self.device, self.dtype)
        self._keep_rows(index, u, v)
        self._clock[0] += 1
        if self.device.type == "cpu":
            self.warn_of_refused(stacklevel=3)

    def recorded_since(self, clock: int) -> int:
        """How many samples were recorded since the clock showed this."""
        return int((self.recorded_at >= clock).sum())

    def _keep_rows(self, index: Tensor, u: Tensor, v: Tensor) -> None:
        """Keeps rows that were checked, and are in the bank's precision and on its device."""
        if not write_plain(self._kept, index, u, v, momentum=self.momentum):
            self._record_good(index, u, v, torch.full_like(index, self.clock))

    def _record_good(self, index: Tensor, u: Tensor, v: Tensor, at: Tensor) -> None:
        """Keeps the good ones of rows at places index: (b,), recorded when the clock showed at: (b,)."""
        self._refused += write_good(self._kept, index, u, v, at, momentum=self.momentum)

    @property
    def _kept(self) -> Storage:
        return Storage(self.u, self.v, self.recorded_at, self._clock, self._cosines, self._lock)

    def fill(
        self, embed: Embed, loader: Iterable[tuple[Tensor, Any]], *, progress: Callable[[int], None] | None = None
    ) -> None:
        """Records every sample of a loader by a pass without gradient, as the paper does before each epoch.

        A bank with a momentum then holds means of this pass and of what was there.

        Args:
            embed: called with a batch, gives u: (b, dim) and v: (b, dim); a tuple or list of parts is given as several
                arguments. A module is put in evaluation mode for the pass.
            loader: yields (index, batch), as a loader over `Indexed` does.
            progress: called with the number of samples recorded so far.
        """
        done = 0
        with evaluating(embed):
            for index, batch in loader:
                self.record(index, *embedded(embed, batch))
                done += len(index)
                if progress is not None:
                    progress(done)

    @torch.no_grad()
    def join(self, group: dist.ProcessGroup | None = None) -> None:
        """Gives all processes the newest record of each sample that any of them holds.

        Called by all processes together. Of records equally new, that of the lowest rank is taken.
        """
        processes = Processes(dist.get_rank(group), dist.get_world_size(group), group)
        clock = self._agree(processes)
        if self.dim == 0:
            return
        newest, mine = newest_of_all(self.recorded_at, group)
        for side in (self.u, self.v):
            take_from_owners(side, mine, group)
        self.recorded_at.copy_(newest)
        self._cosines.copy_(mean_of_all(self._cosines, group))
        self._clock[0] = clock

    def _agree(self, processes: Processes) -> int:
        """Makes sure that the banks of all processes are alike, as wide as any of them is; gives the latest clock."""
        told = processes.gather((self.dim, self.clock))
        width = max(dim for dim, _ in told)

        def open_as_wide() -> None:
            if self.dim == 0 < width:  # nothing was recorded here yet
                self._open(width, self.device)

        processes.each(open_as_wide)
        kind = (self.n, self.dim, str(self.dtype))
        processes.check_same({"the size (n, dim) and the precision of a bank": kind})
        return max(clock for _, clock in told)

    @torch.no_grad()
    def snapshot(self) -> "EmbeddingBank":
        """A copy of what the bank holds now, which later records do not change.

        It is in the memory of the host, or, for a bank in a file, in another one beside it, without a name.
        """
        if self.path is None or self.dim == 0:
            u, v = (side.to("cpu", copy=True) for side in (self.u, self.v))
        else:
            u, v = room_beside(self.path, self.n, self.dim)
            u.copy_(self.u)
            v.copy_(self.v)
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        recorded_at, cosines, refused = (
            x.to("cpu", copy=True) for x in (self.recorded_at, self._cosines, self._refused)
        )
        other._keep(Storage(u, v, recorded_at, self._clock.copy(), cosines))
        other._refused = refused
        return other

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on; tensors of the bank itself and no copies, as in the state of a module."""
        rows = {"u": self.u, "v": self.v, "recorded_at": self.recorded_at}
        return rows | {"clock": self.clock, "cosines": [None if math.isnan(x) else x for x in self._cosines.tolist()]}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state of a bank of the same size, in any precision; rows that are not finite are left out."""
        self.check_state(state)
        if state["u"].shape[1] == 0:  # of before the first record
            self.recorded_at.fill_(NEVER)
            self._clock[0] = state["clock"]
            self._cosines.fill_(math.nan)
            return
        if self.dim == 0:
            self._open(int(state["u"].shape[1]), self.device)
        for start in range(0, len(self.held), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            u, v = (state[name][rows].to(self.device, self.dtype) for name in ("u", "v"))
            recorded_at = state["recorded_at"][rows].to(self.device)
            good = usable(u) & usable(v) & (recorded_at >= 0)
            # Zeros, as where nothing was recorded: times the nothing that a background gives them, NaN were NaN.
            self.u[rows], self.v[rows] = (side.where(good[:, None], 0) for side in (u, v))
            self.recorded_at[rows] = torch.where(good, recorded_at, NEVER)
        self._clock[0] = int(state["clock"])
        self._cosines.copy_(torch.tensor([math.nan if x is None else x for x in state["cosines"]]))

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Refuses what is not the state of a bank of the same size."""
        check_bank_state(state, rows=len(self.held), width=self.dim)

    def warn_of_refused(self, *, stacklevel: int = 2) -> None:
        """Says, once, that rows were not recorded because they were not finite or zero."""
        if not self._warned and int(self._refused):
            self._warned = True
            warnings.warn(
                f"{int(self._refused)} embeddings were NaN, infinite in {self.dtype}, or zero, and were not recorded; "
                "the bank keeps the last good ones (said once)",
                RuntimeWarning,
                stacklevel=stacklevel,
            )

    def _open(self, dim: int, device: torch.device) -> None:
        """Makes or finds the rows, of a width that may be 0: not known yet, so that no file is made."""
        if self.path is None or dim == 0:
            self._keep(in_memory(len(self.held), dim, self.dtype, device))
        else:
            self._keep(in_file(self.path, self.held, self.n, dim, self.dtype))
        self._refused = torch.zeros((), dtype=torch.long, device=device)

    def _keep(self, storage: Storage) -> None:
        self.u, self.v, self.recorded_at, self._clock, self._cosines, self._lock = storage

    def _settle(self, width: int, device: torch.device) -> None:
        """Takes the width and, where nobody said one, the device from the first embeddings recorded here."""
        device = device if self._follows else self.device
        if self.dim == 0:
            clock = self.clock
            self._open(width, device)
            self._clock[0] = clock
        else:
            self.u, self.v, self.recorded_at = (kept.to(device) for kept in (self.u, self.v, self.recorded_at))
            self._cosines = self._cosines.to(device)
            self._refused = self._refused.to(device)
        self._follows = False

    def _checked_index(self, index: Tensor) -> Tensor:
        if not isinstance(index, Tensor):
            raise wrong_type("index", "be a torch tensor", index)
        if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
            raise TypeError(f"index must hold integers; got {index.dtype}")
        if index.ndim != 1:
            raise invalid("index", "have one dimension", f"shape {tuple(index.shape)}")
        if index.device.type == "cpu" and len(index):
            rows = index.tolist()
            low, high = min(rows), max(rows)
            if low < 0 or high >= self.n:
                raise invalid("index", f"lie in 0 to {self.n - 1}", low if low < 0 else high)
        return index.long()

    def _checked_rows(self, name: str, x: Tensor, shape: tuple[int, int]) -> Tensor:
        if not isinstance(x, Tensor):
            raise wrong_type(name, "be a torch tensor", x)
        if not x.is_floating_point():
            raise TypeError(f"{name} must have a floating dtype; got {x.dtype}")
        if tuple(x.shape) != shape:
            rule = f"have shape {shape}, a row of the bank's width for each index"
            raise invalid(name, rule, tuple(x.shape))
        return x.detach()

    def __getstate__(self) -> dict[str, Any]:
        """A bank in a file is found there again; one in memory is copied."""
        stored = ("u", "v", "recorded_at", "_clock", "_cosines", "_lock") if self.path is not None and self.dim else ()
        return {name: value for name, value in vars(self).items() if name not in stored}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.path is not None and "u" not in state:
            self._keep(in_file(self.path, self.held, self.n, width_in_file(self.path), self.dtype))

    def __repr__(self) -> str:
        momentum = f"momentum={self.momentum:g}, " if self.momentum else ""
        return (
            f"{type(self).__name__}({self.n}, {self.dim}, dtype={self.dtype}, {momentum}coverage={self.coverage:.1%})"
        )


def _width_of(u: object) -> int:
    """The width of embeddings (b, d); 1 of what is none, and refused by its shape or its type."""
    return int(u.shape[1]) if isinstance(u, Tensor) and u.ndim == 2 and u.shape[1] else 1
