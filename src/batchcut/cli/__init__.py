"""The command line: one file per verb; each parses, calls and prints."""

from ._main import main as main
