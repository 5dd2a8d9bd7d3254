"""Settings of all runs of frameworks."""

import os
from collections.abc import Iterator

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"  # Read when the Hugging Face libraries are imported.
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # Workers are forked.


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny models are slower on many threads, and much slower where the cores are shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _fresh_accelerator() -> Iterator[None]:
    """Accelerators share their state within a process."""
    yield
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
