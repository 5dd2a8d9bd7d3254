"""The tables of the paper, one module each."""

from . import _claims as claims
from . import _retrieval as retrieval

__all__ = ["claims", "retrieval"]
