"""From words to a verb: what cyclopts reads and shows of the records."""

import functools
import inspect
import platform
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

import batchcut

from ._demo import Demo
from ._evaluate import Evaluate
from ._output import console
from ._paper import List, Run
from ._report import Report
from ._reshard import Reshard
from ._select import Select
from ._theory import Theory
from ._train import Train
from ._verb import DONE, Verb


class UsageError(ValueError):
    """Words that a verb does not take; the second line of the message says where to read on."""


@dataclass(frozen=True)
class Completion:
    """Print a script that completes verbs, options, choices and paths in a shell."""

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut --completion bash > ~/.local/share/bash-completion/completions/batchcut", "for one user of bash"),
        ("batchcut --completion fish > ~/.config/fish/completions/batchcut.fish", "for one of fish"),
    )

    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(name="SHELL")]
    """Which shell it is for."""

    def run(self) -> int:
        """Prints the script."""
        print(app.generate_completion(shell=self.shell), end=_BASH_PATHS if self.shell == "bash" else "")
        return DONE


_BASH_PATHS = r"""
# Paths as bash itself completes them: whole though they hold blanks, and with a slash after a folder.
_batchcut_lines() { local IFS=$'\n'; _batchcut "$@"; }
complete -o filenames -o default -F _batchcut_lines batchcut
"""


@dataclass(frozen=True)
class Version:
    """Print the versions that matter."""

    def run(self) -> int:
        """Prints them on a line."""
        from importlib.metadata import version  # slow to load

        others = " ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "scipy", "numba"))
        print(f"batchcut {batchcut.__version__} (Python {platform.python_version()}, {others})")
        return DONE


@dataclass(frozen=True)
class Help:
    """What a verb does and takes, as cyclopts shows it, and what is printed as it stands."""

    show: Callable[[], object]
    after: str

    def run(self) -> int:
        """Prints both."""
        self.show()
        print(f"\n{self.after}")
        return DONE


VERBS: dict[str, type[Verb]] = {
    "demo": Demo,
    "select": Select,
    "reshard": Reshard,
    "train": Train,
    "evaluate": Evaluate,
    "report": Report,
    "paper list": List,
    "paper run": Run,
    "theory": Theory,
}
_ABOUT = {"paper": "Reproduce the paper: every figure and table, compared with what the paper says."}
_AFTER = """batchcut VERB --help shows what a verb does, its options and defaults, and examples.
With --debug, any verb shows the traceback of an error.

Exit codes: 0 done, 1 a check or the work itself failed, 2 wrong use, 130 interrupted.
New here? `batchcut demo` shows in a few minutes what all of this does."""


def parsed(words: Sequence[str]) -> Verb:
    """The verb that the words ask for; words that are not understood are an error."""
    output = console(width=min(100, shutil.get_terminal_size().columns))
    try:
        command, bound, _ = app.parse_args(words, console=output, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        extra = isinstance(error, UnusedCliTokensError)
        reason = f"{shlex.join(error.unused_tokens or ())}: more words than this verb takes" if extra else str(error)
        raise _refusal(reason, error.command_chain or ()) from error
    if isinstance(command, type):
        (kind,) = command.__bases__
        verb: Verb = kind(**bound.arguments)
        return verb
    chain = [word for word in app.parse_commands(words)[0] if word not in app.help_flags]
    if chain and not set(words) & set(app.help_flags):
        raise _refusal(f"`batchcut {chain[0]}` must be followed by one of {_verbs_of(chain[0])}; got nothing", chain)
    return Help(functools.partial(command, *bound.args, **bound.kwargs), _examples(chain) if chain else _AFTER)


def as_options(kind: type[Verb], message: str) -> str:
    """The message of an error; an argument that it begins with is called what the command line calls it."""
    if kind not in _ALL.values():
        return message
    name, must, rest = message.partition(" must ")
    shown = {argument.field_info.name: argument.name for argument in _command(kind).assemble_argument_collection()}
    word = shown.get(name, "")
    return f"{word}{must}{rest}" if must and (word.startswith("--") or word.isidentifier()) else message


def _refusal(reason: str, chain: Sequence[str]) -> UsageError:
    command = " ".join(("batchcut", *chain))
    return UsageError(f"{reason}\n`{command} --help` shows what can be given, with examples.")


def _verbs_of(group: str) -> str:
    return ", ".join(name.split()[1] for name in VERBS if name.split()[0] == group)


def _examples(chain: Sequence[str]) -> str:
    name = " ".join(chain)
    kinds = [kind for verb, kind in _ALL.items() if f"{verb} ".startswith(f"{name} ")]
    pairs = [pair for kind in kinds for pair in getattr(kind, "examples", ())]
    return "\n".join(["Examples:", *(f"    {command}\n        {meaning}" for command, meaning in pairs)])


def _command(kind: type[Verb], **settings: Any) -> App:
    """The record as cyclopts is to read it: fields before `KW_ONLY` have no dashes, tuples take any number of words.

    Cyclopts knows both of positional-only and starred parameters, which no dataclass has: a subclass says so.
    """
    hints = get_type_hints(kind, include_extras=True)
    parameters = []
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            hint, *extras = get_args(hints[parameter.name])
            if get_origin(hint) is tuple:
                hints[parameter.name] = Annotated[get_args(hint)[0], *extras]
                parameter = inspect.Parameter(parameter.name, parameter.VAR_POSITIONAL)
            else:
                parameter = parameter.replace(kind=parameter.POSITIONAL_ONLY)
        parameters.append(parameter)
    body = {"__doc__": kind.__doc__, "__annotations__": hints, "__signature__": inspect.Signature(parameters)}
    return App(default_command=type(kind.__name__, (kind,), body), version_flags=(), help_format="markdown", **settings)


def _app() -> App:
    root = App(
        name="batchcut",
        help="Picks the mini-batches that teach a contrastive model most.",
        usage="batchcut VERB [OPTIONS]",
        version_flags=(),
        group_commands="Verbs",
        group_parameters="Options",
        help_format="plaintext",
        default_parameter=Parameter(negative=(), allow_repeating=True),
    )
    for place, (name, kind) in enumerate(_ALL.items()):
        *group, verb = name.split()
        if group and group[0] not in root:
            usage = f"batchcut {group[0]} VERB [OPTIONS]"
            root.command(App(name=group[0], help=_ABOUT[group[0]], usage=usage, version_flags=(), sort_key=place))
        (root[group[0]] if group else root).command(_command(kind, name=verb, sort_key=place))
    return root


_ALL: dict[str, type[Verb]] = VERBS | {"--completion": Completion, "--version": Version}
app = _app()
