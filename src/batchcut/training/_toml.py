"""Settings as TOML: written complete, read strictly; and those that come with the package by name."""

import difflib
import importlib
import tomllib
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import tomli_w

from batchcut._errors import as_float, invalid, shortened, unknown_name, wrong_type
from batchcut._files import read_text, reading
from batchcut.selection import Cut, Ordered, Selector, Shuffle, Spectral

from ._config import Config

Tree = dict[str, Any]

_NONE = "none"
"""How TOML, which has no null, says None."""

_LARGEST = 2**63 - 1

_SELECTORS = (Shuffle, Ordered, Spectral, Cut)

_TAG = "method"
"""The key that says which selector a table is: one of ours by its name, another as "module:Class"."""


def to_toml(config: Config) -> str:
    """The settings as TOML, complete: each is written, whether it is the default or not."""
    return tomli_w.dumps(to_tree(config))


def to_tree(record: Any) -> Tree:
    """A record as nested dicts of plain values; None becomes "none"."""
    tree: Tree = {}
    hints = get_type_hints(type(record))
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            tag = {_TAG: _tag_of(type(value))} if hints[field.name] is Selector else {}
            tree[field.name] = tag | to_tree(value)
        else:
            tree[field.name] = _NONE if value is None else _plain(f"{type(record).__name__}.{field.name}", value)
    return tree


def _plain(name: str, value: Any) -> Any:
    """A setting as TOML and JSON hold it; a number of NumPy's, which neither knows, as one of Python's."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, (bool, int, float, str)):
        raise wrong_type(name, "be a number, a text, true or false, or None, to be written as a setting", plain)
    return plain


def parse_toml(text: str, *, source: str | Path) -> Tree:
    """The tables of a TOML text; `source` names it where it is not TOML."""
    with reading(source, "be TOML", found=""):
        return tomllib.loads(text)


def read_toml(path: Path) -> Tree:
    """The tables of a TOML file."""
    return parse_toml(read_text(path, "be TOML"), source=path)


def with_overrides(tree: Tree, overrides: Mapping[str, str]) -> Tree:
    """The tree with values given as text by dotted keys, such as {"optimizer.name": "sgd"}.

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
    """The settings in a tree; what is not there keeps its default, what is not known is refused."""
    config: Config = _record(Config, tree, source, "")
    return config


def recipe_names() -> list[str]:
    """The names of all recipes."""
    return sorted(_recipes())


def recipe(name: str) -> Tree:
    """The settings of a recipe, as TOML holds them; what it leaves out has its default."""
    found = _recipes()
    if name not in found:
        raise unknown_name("recipe", name, sorted(found), listed="`batchcut train --recipe list`")
    return parse_toml(found[name].read_text(encoding="utf-8"), source=f"recipe {name}")


def _recipes() -> dict[str, Traversable]:
    """The files of all recipes, by name: those of training, and those of the paper's tables."""
    folders = [resources.files("batchcut").joinpath(package, "recipes") for package in ("training", "paper")]
    files = [file for folder in folders for file in folder.iterdir() if file.name.endswith(".toml")]
    return {file.name.removesuffix(".toml"): file for file in files}


def _record(kind: Any, tree: object, source: str, path: str) -> Any:
    if not isinstance(tree, dict):
        raise TypeError(f"{source}: {path} must be a table of settings; got {shortened(repr(tree))}")
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
    if hint is Selector:
        return _selector(value, source, path)
    optional, plain = _without_none(hint)
    if optional and value == _NONE:
        return None
    if get_origin(plain) is Literal:
        if value not in get_args(plain):
            raise ValueError(
                f"{source}: {path} must be one of {', '.join(map(repr, get_args(plain)))}; got {shortened(repr(value))}"
            )
        return value
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return as_float(value)
    if type(value) is not plain:
        also = ' or "none"' if optional else ""
        raise TypeError(f"{source}: {path} must be {_NAMES.get(plain, plain)}{also}; got {shortened(repr(value))}")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise ValueError(
            f"{source}: {path} must be an integer of 64 bits, as TOML has them; got one of {value.bit_length()}"
        )
    return value


_NAMES: dict[Any, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}


def _selector(value: object, source: str, path: str) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{source}: {path} must be a table of settings; got {shortened(repr(value))}")
    rest = dict(value)
    kind = _selector_named(rest.pop(_TAG, None), f"{source}: {_at(path, _TAG)}")
    return _record(kind, rest, source, path)


def _tag_of(kind: type) -> str:
    """What a class of selectors is called in settings."""
    if kind in _SELECTORS:
        return kind.__name__.lower()
    tag = f"{kind.__module__}:{kind.__qualname__}"
    if kind.__module__ == "__main__" or "<locals>" in tag:
        raise invalid("selection.selector", "be of a class that can be imported, for a run to go on with it", tag)
    return tag


def _selector_named(tag: object, where: str) -> Any:
    """The class of selectors that settings call so."""
    ours = {kind.__name__.lower(): kind for kind in _SELECTORS}
    if isinstance(tag, str) and tag in ours:
        return ours[tag]
    told = shortened(repr(tag))
    module, colon, name = tag.partition(":") if isinstance(tag, str) else ("", "", "")
    if not (module and colon and name):
        choices = ", ".join(map(repr, ours))
        raise ValueError(f"{where} must be one of {choices}, or 'module:Class' for one of your own; got {told}")
    try:
        kind = attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{where} must name a class that can be imported; got {told} ({error})") from error
    if not (isinstance(kind, type) and issubclass(kind, Selector) and is_dataclass(kind)):
        raise ValueError(f"{where} must name a dataclass that is a Selector; got {told}")
    return kind


def _without_none(hint: Any) -> tuple[bool, Any]:
    if get_origin(hint) in (Union, types.UnionType):
        plain = [member for member in get_args(hint) if member is not type(None)]
        return True, plain[0]
    return False, hint


def _value_of(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except Exception:  # whatever it is: a text in which a key, a number or a bracket is not to be found
        return text


def _copied(tree: Tree) -> Tree:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in tree.items()}


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
