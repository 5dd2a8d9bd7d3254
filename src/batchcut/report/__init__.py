"""Run folders, or a plan with its embeddings, in; one self-contained page of HTML out; nothing here trains."""

from ._compare import Comparison as Comparison
from ._compare import Group as Group
from ._compare import compare as compare
from ._page import write_report as write_report
from ._plan_page import write_plan_report as write_plan_report
from ._run import Run as Run
from ._run import find_runs as find_runs
from ._run import read_run as read_run

__all__ = ["Comparison", "Group", "Run", "compare", "find_runs", "read_run", "write_plan_report", "write_report"]

# For the command line, and not part of the reference:
from ._samples import read_texts as read_texts
