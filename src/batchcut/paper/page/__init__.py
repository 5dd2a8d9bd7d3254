"""Runs items, keeps what came out, and shows it on one page."""

from ._page import page as page
from ._page import write_page as write_page
from ._run import Outcome as Outcome
from ._run import choose as choose
from ._run import finished as finished
from ._run import run_items as run_items
