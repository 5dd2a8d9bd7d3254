"""Settings as TOML: written complete, read strictly."""

import difflib
import re
import tomllib
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from batchcut._errors import invalid

from ._config import Config

Tree = dict[str, Any]

_NONE = "none"
"""How TOML, which has no null, says None."""

_TAG = "method"
"""The key that says which of several records a table is."""


def to_toml(config: Config) -> str:
    """The settings as TOML, complete: each is written, whether it is the default or not."""
    return "\n".join(_lines(to_tree(config), "")) + "\n"


def to_tree(record: Any) -> Tree:
    """A record as nested dicts of plain values; None becomes "none"."""
    tree: Tree = {}
    hints = get_type_hints(type(record))
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            tag = {_TAG: type(value).__name__.lower()} if _records_in(hints[field.name]) else {}
            tree[field.name] = tag | to_tree(value)
        else:
            tree[field.name] = _NONE if value is None else value
    return tree


def parse_toml(text: str, *, source: str) -> Tree:
    """The tables of a TOML text; `source` names it where it is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{source} must be TOML; {error}") from error


def read_toml(path: Path) -> Tree:
    """The tables of a TOML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be TOML in UTF-8; {error}") from error
    return parse_toml(text, source=str(path))


def with_overrides(tree: Tree, overrides: Mapping[str, str]) -> Tree:
    """The tree with values given as text by dotted keys, such as {"optimiser.name": "sgd"}.

    A value is read as TOML does, and as plain text where that fails. Another `method` drops the settings of the old.
    """
    merged = _copied(tree)
    for key, text in overrides.items():
        *path, name = key.split(".")
        table = merged
        for part in path:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise invalid(key, f"name a setting; {part!r} is one itself, not a group of them", text)
        value = _value_of(text)
        if name == _TAG and table.get(_TAG) != value:
            table.clear()
        table[name] = value
    return merged


def merged(base: Tree, over: Tree) -> Tree:
    """The two trees in one, in which `over` has the last word."""
    result = _copied(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            other = _TAG in value and value[_TAG] != result[key].get(_TAG)
            result[key] = _copied(value) if other else merged(result[key], value)
        else:
            result[key] = value
    return result


def config_of(tree: Tree, *, source: str) -> Config:
    """The settings in a tree; what is not there keeps its default, what is not known is refused.

    A selector without a temperature takes that of the objective.
    """
    tree = _copied(tree)
    objective, selection = tree.get("objective", {}), tree.setdefault("selection", {})
    if isinstance(objective, dict) and isinstance(selection, dict) and "temperature" in objective:
        selector = selection.setdefault("selector", {_TAG: "cut"})
        if isinstance(selector, dict):
            selector.setdefault("temperature", objective["temperature"])
    config: Config = _record(Config, tree, source, "")
    return config


def _record(kind: Any, tree: object, source: str, path: str) -> Any:
    if not isinstance(tree, dict):
        raise TypeError(f"{source}: {path} must be a table of settings; got {tree!r}")
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}
    for name in tree:
        if name not in known:
            raise ValueError(f"{source}: {_at(path, name)} is no setting{_instead(name, path, list(known))}")
    values = {name: _field(hints[name], value, source, _at(path, name)) for name, value in tree.items()}
    missing = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING and n not in values]
    if missing:
        raise ValueError(f"{source}: {_at(path, missing[0])} is missing")
    try:
        return kind(**values)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{source}: {error}") from error


def _instead(name: str, path: str, known: list[str]) -> str:
    """What may have been meant, and what there is."""
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {_at(path, close[0])}?" if close else "; remove it, or choose another:"
    return f"{hint} {path or 'a run'} has the settings {', '.join(known)}"


def _field(hint: Any, value: object, source: str, path: str) -> Any:
    if is_dataclass(hint):
        return _record(hint, value, source, path)
    if records := _records_in(hint):
        return _tagged(records, value, source, path)
    optional, plain = _without_none(hint)
    if optional and value == _NONE:
        return None
    if get_origin(plain) is Literal:
        if value not in get_args(plain):
            raise ValueError(f"{source}: {path} must be one of {', '.join(map(repr, get_args(plain)))}; got {value!r}")
        return value
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not plain:
        also = ' or "none"' if optional else ""
        raise TypeError(f"{source}: {path} must be {_NAMES[plain]}{also}; got {value!r}")
    return value


_NAMES: dict[Any, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}


def _tagged(records: dict[str, Any], value: object, source: str, path: str) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{source}: {path} must be a table of settings; got {value!r}")
    rest = dict(value)
    tag = rest.pop(_TAG, None)
    if tag not in records:
        raise ValueError(f"{source}: {_at(path, _TAG)} must be one of {', '.join(map(repr, records))}; got {tag!r}")
    return _record(records[tag], rest, source, path)


def _records_in(hint: Any) -> dict[str, Any]:
    """The records of a union of records, by their names."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else ()
    return {member.__name__.lower(): member for member in members} if members and is_dataclass(members[0]) else {}


def _without_none(hint: Any) -> tuple[bool, Any]:
    if get_origin(hint) in (Union, types.UnionType):
        plain = [member for member in get_args(hint) if member is not type(None)]
        return True, plain[0]
    return False, hint


def _lines(tree: Tree, path: str) -> list[str]:
    lines = [f"{name} = {_text(value)}" for name, value in tree.items() if not isinstance(value, dict)]
    for name, value in tree.items():
        if isinstance(value, dict):
            inner = _at(path, name)
            lines += ["", f"[{inner}]", *_lines(value, inner)]
    return lines


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{re.sub(_SPECIAL, _escaped, value)}"'
    if isinstance(value, float):
        return repr(value)
    return str(value)


_SPECIAL = re.compile(r'[\x00-\x1f"\\\x7f]')


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _value_of(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def _copied(tree: Tree) -> Tree:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in tree.items()}


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
