"""The demonstration: four ways to choose batches, the same encoder, data that is always at hand."""

from ._demo import METHODS as METHODS
from ._demo import Outcome as Outcome
from ._demo import Row as Row
from ._demo import demo_config as demo_config
from ._demo import run_demo as run_demo

__all__ = ["METHODS", "Outcome", "Row", "demo_config", "run_demo"]
