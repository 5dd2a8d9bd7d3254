"""The paper, reproduced: its claims, figures and tables, compared with what it says. README.md is the map."""

from . import claims as claims
from ._item import Finding as Finding
from ._item import Item as Item
from ._item import Settings as Settings
from ._item import Table as Table
from ._item import Verdict as Verdict
from ._registry import ITEMS as ITEMS
from .page import Outcome as Outcome
from .page import choose as choose
from .page import finished as finished
from .page import run_items as run_items
from .page import write_page as write_page

__all__ = [
    "ITEMS",
    "Finding",
    "Item",
    "Outcome",
    "Settings",
    "Table",
    "Verdict",
    "choose",
    "finished",
    "run_items",
    "write_page",
]
