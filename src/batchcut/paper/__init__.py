"""The paper, reproduced: every figure and table, one module each, compared with what the paper says."""

from ._item import Finding as Finding
from ._item import Item as Item
from ._item import Settings as Settings
from ._item import Table as Table
from ._item import Verdict as Verdict
from ._items import ITEMS as ITEMS
from ._page import page as page
from ._page import write_page as write_page
from ._run import Outcome as Outcome
from ._run import choose as choose
from ._run import finished as finished
from ._run import run_items as run_items
