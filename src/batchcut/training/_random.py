"""Random numbers for torch as a function of what they are for: a run that goes on draws what it would have drawn."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def key(*numbers: int) -> int:
    """A seed for a generator from numbers that say what it is for, such as (Stream.VIEWS, seed, epoch, step)."""
    text = ",".join(str(int(number)) for number in numbers).encode()
    return zlib.crc32(text) << 31 ^ zlib.crc32(text[::-1] + b"batchcut")


def generator(*numbers: int) -> torch.Generator:
    """A generator on the CPU for what the numbers say."""
    return torch.Generator().manual_seed(key(*numbers))


@contextmanager
def seeded(device: torch.device, *numbers: int) -> Iterator[None]:
    """Lends the global generators, for libraries that use no other, and gives them back as they were."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(key(*numbers))
        yield
