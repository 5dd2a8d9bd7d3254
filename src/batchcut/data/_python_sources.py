"""Public functions and classes of a library, read from its sources: files are parsed, nothing is imported.

Libraries keep public functions in private files and name them again in the `__init__` of a public package
(`scipy.optimize._lsq.least_squares.least_squares` is `scipy.optimize.least_squares`). The imports of each such
`__init__` are followed, and what it names is known by the shortest public path that leads to it.
"""

import ast
import gc
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from batchcut._files import reading

from ._docstrings import first_sentence

_LEFT_OUT = ("test", "tests", "conftest", "externals")
_ACCESSORS = ("setter", "getter", "deleter")
_LONGEST_DEFAULT = 20

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
Home = tuple[str, str]


@dataclass(frozen=True)
class PythonFunction:
    """What can be called by a path: a function, a method or a class.

    Attributes:
        name: The path, such as `numpy.linalg.norm`.
        call: Path and parameters: `numpy.linalg.norm(x, ord=None, axis=None, keepdims=False)`.
        sentence: The first sentence of its docstring; empty where there is none.
    """

    name: str
    call: str
    sentence: str


def module_files(name: str, place: Path) -> dict[str, Path]:
    """The modules at a place, a package's folder or one file, without tests and copies of other libraries."""
    if place.is_file():
        return {name: place}
    files = {}
    for path in sorted(place.rglob("*.py")):
        parts = [name, *path.relative_to(place).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
        if not any(part in _LEFT_OUT or part.startswith("test_") or not part.isidentifier() for part in parts):
            files[".".join(parts)] = path
    return files


def public_functions(files: Mapping[str, Path]) -> list[PythonFunction]:
    """The public functions, methods and classes of a library, given its modules by name.

    Public is what a path without a leading underscore in any part leads to: where it is defined, or where the
    `__init__` of a package names it again. Of several such paths the one of the fewest parts is taken, then the first
    in the alphabet. Properties are not called, and functions within functions cannot be.
    """
    with _collector_paused():
        library = _Library(files)
        paths: dict[Home, str] = {}
        for path, home in library.public_paths():
            paths[home] = min(path, paths.get(home, path), key=by_length)
        found = {path: _functions_in(library.definition(home), path) for home, path in paths.items()}
    functions = (function for path in found for function in found[path])
    return sorted(functions, key=lambda function: by_length(function.name))


def by_length(path: str) -> tuple[int, str]:
    """Orders dotted paths: fewer parts first, then the alphabet."""
    return path.count("."), path


@dataclass
class _Module:
    """What a file defines, and what it names from other files."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    imported: dict[str, Home] = field(default_factory=dict)
    starred: list[str] = field(default_factory=list)
    listed: list[str] | None = None  # by __all__


class _Library:
    """The modules of a library, each read when it is first asked for."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._read: dict[str, _Module] = {}

    def definition(self, home: Home) -> Definition:
        """The function or class that a module defines under a name."""
        return self._module(home[0]).definitions[home[1]]

    def public_paths(self) -> Iterator[tuple[str, Home]]:
        """The paths of functions and classes, with where these are defined."""
        for module, file in self._files.items():
            if _is_public(module):
                names = self._module(module).definitions
                homes = {name: (module, name) for name in names}
                if file.name == "__init__.py":
                    homes = dict(self._named_again(module)) | homes
                yield from ((f"{module}.{name}", home) for name, home in homes.items() if _is_public(name))

    def _named_again(self, module: str) -> Iterator[tuple[str, Home]]:
        read = self._module(module)
        for star in read.starred:
            for name in self._starred_names(star, set()):
                if home := self._home(star, name, set()):
                    yield name, home
        for name, source in read.imported.items():
            if home := self._home(*source, set()):
                yield name, home

    def _home(self, module: str, name: str, seen: set[Home]) -> Home | None:
        """Where a function or class is defined that a module knows by a name; None outside of the library."""
        if module not in self._files or (module, name) in seen:
            return None
        seen.add((module, name))
        read = self._module(module)
        if name in read.definitions:
            return module, name
        if name in read.imported:
            return self._home(*read.imported[name], seen)
        homes = (self._home(star, name, seen) for star in read.starred)
        return next((home for home in homes if home is not None), None)

    def _starred_names(self, module: str, seen: set[str]) -> list[str]:
        """What `from module import *` brings: what `__all__` lists, or else what the module defines."""
        if module not in self._files or module in seen:
            return []
        seen.add(module)
        read = self._module(module)
        if read.listed is not None:
            return read.listed
        return [*read.definitions, *(name for star in read.starred for name in self._starred_names(star, seen))]

    def _module(self, name: str) -> _Module:
        if name not in self._read:
            self._read[name] = _read_module(name, self._files[name])
        return self._read[name]


def _read_module(name: str, path: Path) -> _Module:
    with reading(path, "be Python source"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in the texts of others
        tree = ast.parse(path.read_bytes(), filename=str(path))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    module = _Module()
    for statement in _statements(tree.body):
        if isinstance(statement, Definition):
            known = module.definitions.get(statement.name)
            if known is None or not _docstring(known):  # an overload has none
                module.definitions[statement.name] = statement
                _drop_code(statement)
        elif isinstance(statement, ast.ImportFrom):
            source = _absolute(package, statement)
            names = {alias.asname or alias.name: (source, alias.name) for alias in statement.names}
            module.starred += [source] * (names.pop("*", None) is not None)
            module.imported |= names
        elif isinstance(statement, ast.Assign) and any(ast.unparse(to) == "__all__" for to in statement.targets):
            module.listed = _texts(statement.value)
    return module


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Statements one by one, those under `if`, `try` and `with` among them, but not those of functions and classes."""
    for statement in body:
        yield statement
        if not isinstance(statement, Definition):
            for block in ("body", "handlers", "orelse", "finalbody"):
                yield from _statements(getattr(statement, block, ()))


def _drop_code(definition: Definition) -> None:
    """Leaves of functions what comes before their second statement: trees of whole libraries take a gigabyte."""
    if not isinstance(definition, ast.ClassDef):
        del definition.body[1:]
        return
    for member in _statements(definition.body):
        if isinstance(member, Definition):
            _drop_code(member)


def _absolute(package: str, statement: ast.ImportFrom) -> str:
    """The module that `from … import` names, in full."""
    parts = package.split(".")
    above = parts[: len(parts) - statement.level + 1] if statement.level else []
    return ".".join([*above, *([statement.module] if statement.module else [])])


def _texts(value: ast.expr) -> list[str] | None:
    """The texts in a plain list; None where it is computed."""
    try:
        found = ast.literal_eval(value)
    except ValueError:
        return None
    return [text for text in found if isinstance(text, str)]


def _functions_in(definition: Definition, path: str) -> list[PythonFunction]:
    """The function or class of that path; with a class its public methods, and the classes within it."""
    if not isinstance(definition, ast.ClassDef):
        return [_described(definition, path, _parameters(definition, bound=False))]
    members: dict[str, PythonFunction] = {}
    parameters = "..."  # those of another class
    for member in _statements(definition.body):
        if isinstance(member, Function) and member.name == "__init__":
            parameters = _parameters(member, bound=True)
        if not isinstance(member, Definition) or not _is_public(member.name):
            continue
        name = f"{path}.{member.name}"
        if isinstance(member, ast.ClassDef):
            members |= {function.name: function for function in _functions_in(member, name)}
        elif not _is_property(member) and not (name in members and members[name].sentence):
            bound = "staticmethod" not in _decorators(member)
            members[name] = _described(member, name, _parameters(member, bound=bound))
    return [_described(definition, path, parameters), *members.values()]


def _described(definition: Definition, path: str, parameters: str) -> PythonFunction:
    sentence = first_sentence(inspect.cleandoc(_docstring(definition)), definition.name)
    return PythonFunction(path, f"{path}({parameters})", sentence)


def _parameters(function: Function, *, bound: bool) -> str:
    """Parameters and defaults as in the source, without annotations; `self` is left out, and so are long defaults."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    if bound and positional:
        del (given.posonlyargs or given.args)[0]
    for argument in (*positional, *given.kwonlyargs, given.vararg, given.kwarg):
        if argument is not None:
            argument.annotation = None
    given.defaults = [_shortened(default) for default in given.defaults]
    given.kw_defaults = [None if default is None else _shortened(default) for default in given.kw_defaults]
    return ast.unparse(given)


def _shortened(default: ast.expr) -> ast.expr:
    return ast.Constant(...) if len(ast.unparse(default)) > _LONGEST_DEFAULT else default


def _docstring(definition: Definition) -> str:
    return ast.get_docstring(definition, clean=False) or ""


def _decorators(function: Function) -> list[str]:
    """The last names of what decorates a function: `cached_property` of `@functools.cached_property`."""
    return [ast.unparse(decorator).partition("(")[0].rpartition(".")[2] for decorator in function.decorator_list]


def _is_property(function: Function) -> bool:
    return any(name.endswith("property") or name in _ACCESSORS for name in _decorators(function))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Trees have no cycles, and a collector that walks them again and again takes as long as the parser."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _is_public(path: str) -> bool:
    return not any(part.startswith("_") for part in path.split("."))
