import gc
from pathlib import Path
from textwrap import dedent

import pytest

from batchcut.data._python_sources import PythonFunction, module_files, public_functions


def library(folder: Path, **files: str) -> list[PythonFunction]:
    """What is found in a package `lib` of these files; two underscores in a name are a folder."""
    for name, text in files.items():
        path = folder / "lib" / (name.replace("__", "/") + ".py").replace("init.py", "__init__.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return public_functions(module_files("lib", folder / "lib"))


def calls(functions: list[PythonFunction]) -> list[str]:
    return [function.call for function in functions]


def test_functions_methods_and_classes(tmp_path: Path) -> None:
    found = library(
        tmp_path,
        init="",
        sums='''
        """Sums."""

        def add(x, y=1):
            """Add two numbers. More."""

        async def wait(seconds):
            r"""Wait for \\sigma seconds."""

        class Adder:
            """Adds many numbers."""

            def __init__(self, start=0):
                """Not a class."""

            def add(self, *values):
                """Add some numbers."""

            class Inner:
                """A class within one."""
                def add(self):
                    """Add within it."""

        class Heir(Adder):
            """Adds as its parent does."""

        def outer():
            def inner():
                """Cannot be called by a path."""
        ''',
    )
    assert found == [
        PythonFunction("lib.sums.Adder", "lib.sums.Adder(start=0)", "Adds many numbers."),
        PythonFunction("lib.sums.Heir", "lib.sums.Heir(...)", "Adds as its parent does."),
        PythonFunction("lib.sums.add", "lib.sums.add(x, y=1)", "Add two numbers."),
        PythonFunction("lib.sums.outer", "lib.sums.outer()", ""),
        PythonFunction("lib.sums.wait", "lib.sums.wait(seconds)", "Wait for \\sigma seconds."),
        PythonFunction("lib.sums.Adder.Inner", "lib.sums.Adder.Inner(...)", "A class within one."),
        PythonFunction("lib.sums.Adder.add", "lib.sums.Adder.add(*values)", "Add some numbers."),
        PythonFunction("lib.sums.Adder.Inner.add", "lib.sums.Adder.Inner.add()", "Add within it."),
    ]


def test_signatures(tmp_path: Path) -> None:
    found = library(
        tmp_path,
        init="""
        def f(a: int, /, b: "str" = 'x', *rest: float, c, d: int = 1, **more: object) -> None: ...
        def g(a=very_long_name_of_a_default_value, *, b=(1, 2)): ...
        class C:
            def bound(self, a): ...
            def only(self, /, a): ...
            @classmethod
            def made(cls, a): ...
            @staticmethod
            def free(a): ...
            @functools.wraps(f)
            def wrapped(self): ...
        """,
    )
    assert calls(found) == [
        "lib.C(...)",
        "lib.f(a, /, b='x', *rest, c, d=1, **more)",
        "lib.g(a=..., *, b=(1, 2))",
        "lib.C.bound(a)",
        "lib.C.free(a)",
        "lib.C.made(a)",
        "lib.C.only(a)",
        "lib.C.wrapped()",
    ]


def test_properties_are_not_called(tmp_path: Path) -> None:
    found = library(
        tmp_path,
        init="""
        class C:
            @property
            def a(self): ...
            @a.setter
            def a(self, value): ...
            @functools.cached_property
            def b(self): ...
            @lazy_property(1)
            def c(self): ...
        """,
    )
    assert calls(found) == ["lib.C(...)"]


def test_of_overloads_the_one_with_a_docstring_counts(tmp_path: Path) -> None:
    found = library(
        tmp_path,
        init='''
        @overload
        def f(a: int) -> int: ...
        @overload
        def f(a: str) -> str: ...
        def f(a, b=0):
            """Does both."""
        class C:
            @overload
            def m(self, a: int) -> int: ...
            def m(self, a, b=0):
                """Does both, too."""
        if fast:
            def g(a):
                """The first."""
        else:
            def g(a, b):
                """The second."""
        try:
            def h(a): ...
        except ImportError:
            def h(a, b):
                """In a handler."""
        ''',
    )
    assert calls(found) == ["lib.C(...)", "lib.f(a, b=0)", "lib.g(a)", "lib.h(a, b)", "lib.C.m(a, b=0)"]


def test_what_begins_with_an_underscore_is_private(tmp_path: Path) -> None:
    found = library(
        tmp_path,
        init="def _f(): ...\nclass _C:\n    def m(self): ...\nclass C:\n    def _m(self): ...\n    def __a__(self): 0",
        _hidden="def f(): ...",
        _folder__open="def g(): ...",
    )
    assert calls(found) == ["lib.C(...)"]


def test_what_a_package_names_again_is_public_by_the_shortest_path(tmp_path: Path) -> None:
    found = library(
        tmp_path,
        init="from ._a import f, _g, Class as Alias\nfrom .sub import star\nfrom . import sub\nfrom os import path",
        _a="def f(): ...\ndef _g(): ...\ndef unnamed(): ...\nclass Class:\n    def m(self): ...",
        sub__init="from ._b import *\nfrom lib._a import f\nfrom ..sub.deep import deep",
        sub___b="__all__ = ['star', 'chained']\nfrom ._c import chained\ndef star(): ...\ndef unlisted(): ...",
        sub___c="def chained(): ...",
        sub__deep="def deep(): ...",
        user="from ._a import unnamed",  # a file that uses a function does not offer it
    )
    assert calls(found) == [
        "lib.Alias(...)",
        "lib.f()",
        "lib.star()",
        "lib.Alias.m()",
        "lib.sub.chained()",
        "lib.sub.deep()",
    ]


def test_stars_without_a_list_bring_what_is_defined(tmp_path: Path) -> None:
    found = library(
        tmp_path,
        init="from ._a import *",
        _a="from ._b import *\nfrom ._c import used\n__all__ = [name for name in dir()]\ndef f(): ...\ndef _g(): ...",
        _b="def h(): ...",
        _c="def used(): ...",
    )
    assert calls(found) == ["lib.f()", "lib.h()"]


def test_circles_of_imports_end(tmp_path: Path) -> None:
    found = library(
        tmp_path, init="from ._a import *\nfrom ._a import f", _a="from ._b import *", _b="from ._a import *"
    )
    assert found == []


def test_tests_and_copies_of_others_are_left_out(tmp_path: Path) -> None:
    some = "def f(): ..."
    names = ("tests__a", "test__a", "a__tests__b", "test_a", "conftest", "externals__a", "not-a-name__a")
    assert library(tmp_path, init="", **dict.fromkeys(names, some)) == []
    assert calls(library(tmp_path, testing=some)) == ["lib.testing.f()"]


def test_nothing_is_imported(tmp_path: Path) -> None:
    found = library(tmp_path, init="raise SystemExit\ndef f():\n    '''Stays a text.'''")
    assert found == [PythonFunction("lib.f", "lib.f()", "Stays a text.")]


def test_a_single_file(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text("def f(): 'Has an \\d in it.'", encoding="utf-8")  # Python warns of such an escape
    assert public_functions(module_files("one", path)) == [PythonFunction("one.f", "one.f()", "Has an \\d in it.")]


def test_a_file_that_is_no_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lib/__init__\.py must be Python source; got one that fails: "):
        library(tmp_path, init="def (")
    assert gc.isenabled()
