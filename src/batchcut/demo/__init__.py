"""The demonstration: four ways to choose batches, the same encoder, data that is always at hand."""

from ._demo import Asked as Asked
from ._demo import Outcome as Outcome
from ._demo import Row as Row
from ._demo import run_demo as run_demo
from ._settings import METHODS as METHODS
from ._settings import DemoData as DemoData
from ._settings import demo_config as demo_config

__all__ = ["METHODS", "Asked", "Outcome", "Row", "demo_config", "run_demo"]
