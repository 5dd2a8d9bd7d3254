from collections.abc import Iterator

import pytest

from batchcut.theory import one_thread


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """The tensors are small: threads only get in each other's way, the more so where tests run side by side."""
    with one_thread():
        yield
