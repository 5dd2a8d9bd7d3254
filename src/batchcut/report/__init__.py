"""Run folders, or a plan with its embeddings, in; one self-contained page of HTML out; nothing here trains."""

from ._compare import Comparison as Comparison
from ._compare import Group as Group
from ._compare import compare as compare
from ._gain import Gain as Gain
from ._page import write_report as write_report
from ._plan_page import write_plan_report as write_plan_report
from ._run import Run as Run
from ._run import find_runs as find_runs
from ._run import read_run as read_run

# For the command line, and not part of the reference:
from ._samples import read_texts as read_texts
from ._search import Answer as Answer
from ._search import SearchIndex as SearchIndex
from ._search import SearchTower as SearchTower
from ._search import check_question as check_question
from ._search import joined_layer as joined_layer
from ._search import read_search as read_search
from ._search import rounded as rounded
from ._search import shortened_features as shortened_features
from ._search import write_search as write_search
from ._verdict import finding as finding

# What makes, keeps and asks an index is for the demo alone, but for what it gives.
__all__ = [
    "Answer",
    "Comparison",
    "Gain",
    "Group",
    "Run",
    "SearchIndex",
    "compare",
    "find_runs",
    "read_run",
    "write_plan_report",
    "write_report",
]
