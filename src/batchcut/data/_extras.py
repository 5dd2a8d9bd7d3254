"""Libraries that only some data sets need."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needs(library: str, purpose: str) -> Iterator[None]:
    """Turns a failed import inside the block into an error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f'{purpose} need {library}, and {error.name} is not installed: pip install "batchcut[train]" brings it'
        ) from error
