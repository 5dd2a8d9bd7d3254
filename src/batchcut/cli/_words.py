"""The words after a verb: checked against its record before they are read, and put in order.

What is wrong is said in a line or two. Words that are no options may stand anywhere among them.
"""

import difflib
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

_HELP = ("-h", "--help")
_RULES: dict[Any, str] = {int: "an integer", float: "a number", Path: "a path", str: "a text"}


class UsageError(ValueError):
    """Words that a verb does not take; the second line of the message says where to read on."""


@dataclass(frozen=True, kw_only=True)
class _Field:
    """What a field of a record is on the command line.

    Attributes:
        shown: how messages call it.
        names: of an option, such as --out and -o; none of a word that stands for itself.
        hint: the type of its values.
        needed: whether it must be given.
        many: whether it takes any number of words.
    """

    shown: str
    names: tuple[str, ...]
    hint: Any
    needed: bool
    many: bool


def in_order(command: str, kind: Any, words: Sequence[str]) -> list[str]:
    """The words for the record `kind`, options last; what it does not take is refused with a `UsageError`."""
    if any(word in _HELP for word in words):
        return ["--help"]
    known = list(_fields_of(kind))
    try:
        options, rest, seen = _taken_apart(known, words)
        _check_rest(known, rest, seen)
    except UsageError as error:
        raise UsageError(f"{error}\n`{command} --help` shows what can be given, with examples.") from None
    return [*rest, *options]


def as_options(kind: Any, message: str) -> str:
    """The message of an error; an argument that it begins with is called what the command line calls it."""
    name, must, rest = message.partition(" must ")
    shown = {field.name: words.shown for field, words in zip(fields(kind), _fields_of(kind), strict=True)}
    word = shown.get(name, "")
    return f"{word}{must}{rest}" if must and (word.startswith("--") or word.isidentifier()) else message


def _taken_apart(known: Sequence[_Field], words: Sequence[str]) -> tuple[list[str], list[str], set[str]]:
    """Options with their values, the other words, and which options there are."""
    by_name = {name: field for field in known for name in field.names}
    options: list[str] = []
    rest: list[str] = []
    seen: set[str] = set()
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if not _is_option(word):
            rest.append(word)
            continue
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        if name not in by_name:
            raise UsageError(_unknown(name, list(by_name)))
        field = by_name[name]
        seen.add(field.shown)
        options.append(name)
        if field.hint is bool:
            if equals:
                raise UsageError(f"{field.shown} takes no value; got {value!r}")
            continue
        if not equals:
            if not queue or _is_option(queue[0]):
                raise UsageError(f"{field.shown} must be followed by {_rule(field.hint)}")
            value = queue.pop(0)
        _check_value(field, value)
        options.append(value)
    return options, rest, seen


def _check_rest(known: Sequence[_Field], rest: Sequence[str], seen: set[str]) -> None:
    places = [field for field in known if not field.names]
    most = None if any(field.many for field in places) else len(places)
    given = {field.shown for field in places[: len(rest)]} | seen
    if missing := [field.shown for field in known if field.needed and field.shown not in given]:
        raise UsageError(f"{' and '.join(missing)} must be given")
    if most is not None and len(rest) > most:
        takes = f"nothing after {' '.join(field.shown for field in places)}" if places else "options only"
        raise UsageError(f"{rest[most]!r} is one word too many: this verb takes {takes}")


def _fields_of(kind: Any) -> Iterator[_Field]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        whole = hints[field.name]
        hint, *extras = get_args(whole) if get_origin(whole) is Annotated else (whole,)
        name = next(filter(None, (getattr(extra, "name", None) for extra in extras)), field.name)
        metavar = next(filter(None, (getattr(extra, "metavar", None) for extra in extras)), field.name.upper())
        aliases = [alias for extra in extras for alias in getattr(extra, "aliases", None) or ()]
        option = "--" + name.replace("_", "-")
        alone = tyro.conf.Positional in extras
        yield _Field(
            shown=metavar.strip("[]") if alone else option,
            names=() if alone else (option, *aliases),
            hint=hint,
            needed=field.default is MISSING and field.default_factory is MISSING,
            many=get_origin(hint) is tuple,
        )


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _reads(float, word)


def _unknown(name: str, names: Sequence[str]) -> str:
    longer = [known for known in names if len(name) > 2 and known.startswith(name)]
    bare = {known.lstrip("-"): known for known in names}  # the dashes are alike in all
    close = longer or [bare[known] for known in difflib.get_close_matches(name.lstrip("-"), bare, n=1)]
    return f"there is no option {name}" + (f"; did you mean {close[0]}?" if close else "")


def _check_value(field: _Field, value: str) -> None:
    if not any(_reads(kind, value) for kind in _members(field.hint)):
        raise UsageError(f"{field.shown} must be {_rule(field.hint)}; got {value!r}")


def _reads(kind: Any, value: str) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is type(None):
        return value == "None"
    if kind not in (int, float):
        return True
    convert: Callable[[str], object] = kind
    try:
        convert(value)
    except ValueError:
        return False
    return True


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _rule(hint: Any) -> str:
    """What a value may be, in words."""
    rules = []
    for kind in _members(hint):
        if get_origin(kind) is Literal:
            choices = get_args(kind)
            rules.append(f"one of {', '.join(choices)}" if len(choices) > 1 else str(choices[0]))
        elif kind is not type(None):
            rules.append(_RULES[kind])
    return " or ".join(rules)
