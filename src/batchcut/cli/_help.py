"""What `--help` says: one style for all verbs, with examples."""

import inspect
import shutil
import textwrap
from collections.abc import Callable, Mapping

_BEFORE = """usage: batchcut VERB [OPTIONS]

Picks the mini-batches that teach a contrastive model most.

"""

_AFTER = """
  batchcut VERB --help                         what a verb does, its options and defaults, examples
  batchcut --version                           the versions that matter
  batchcut VERB ... --debug                    shows the traceback of an error
  batchcut --tyro-print-completion bash        a script that completes verbs and options; also zsh, fish

Exit codes: 0 done, 1 a check or the work itself failed, 2 wrong use, 130 interrupted.
New here? `batchcut demo` shows in a few minutes what all of this does.
"""


def general_help(verbs: Mapping[str, Callable[..., object]]) -> str:
    """A line for each verb, and what they have in common."""
    width = max(map(len, verbs)) + 2
    lines = [f"  {name:<{width}}{summary_of(verb)}" for name, verb in verbs.items()]
    return _BEFORE + "\n".join(lines) + "\n" + _AFTER


def summary_of(verb: Callable[..., object]) -> str:
    """The first line of the docstring of a verb."""
    return _paragraphs(verb)[0]


def help_of(verb: Callable[..., object]) -> str:
    """The docstring of a verb, and its examples, a pair of command and meaning each."""
    first, *rest = _paragraphs(verb)
    examples: tuple[tuple[str, str], ...] = getattr(verb, "examples", ())
    parts = [first, *(_indented(paragraph) for paragraph in rest)]
    if examples:
        lines = [line for command, meaning in examples for line in (f"    {command}", f"        {meaning}")]
        parts.append("\n".join(["  Examples:", *lines]))
    return "\n\n".join(parts)


def _indented(paragraph: str) -> str:
    """Wrapped to the terminal; tyro leaves lines alone that do not begin at its edge."""
    width = min(100, shutil.get_terminal_size().columns)
    return textwrap.fill(paragraph, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _paragraphs(verb: Callable[..., object]) -> list[str]:
    return [" ".join(part.split()) for part in inspect.cleandoc(verb.__doc__ or "").split("\n\n")]
