"""`functions`: the Python functions on this machine, each with what the first sentence of its docstring says.

The choices below were made by what the texts are, before anything was trained on them.

- **From where.** NumPy, SciPy, scikit-learn, torch and the standard library: batchcut needs them all, so that they are
  there. Of the standard library without what is installed apart on some systems (`tkinter` and the like).
- **Which.** What can be called by a public path: functions, methods and classes, with a first sentence of three words
  or more. They are read from `.py` files, which what is written in C, such as much of torch's own namespace, lacks.
- **Sides.** u is the sentence, the query; v the call, the answer: path, parameters and defaults without annotations,
  which some libraries have and others do not.
- **One of each.** Of functions whose sentences have the same words, which no search could tell apart, the one with the
  shortest path is kept. Sentences that differ in one word stay: these near twins are what makes the task hard.
- **Test.** A fifth, by a hash of the last name in the path, without case and underscores. All functions of one name
  are in one part, so that `numpy.linalg.det` is not learnt where `scipy.linalg.det` is tested. By module would be
  another task: searching a library that was never seen.
- **Order.** By a hash of the path, so that the first n are a sample of all.

All of it is a function of the installed versions; the checksum of the texts says whether two machines have the same.
"""

import hashlib
import importlib.util
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from batchcut._errors import needs

from ._python_sources import PythonFunction, by_length, module_files, public_functions
from ._records import Pairs, Split
from ._text_features import Floats, TextFeatures, fit_text_features

_DISTRIBUTIONS = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn", "torch": "torch"}
_APART = frozenset(
    {"distutils", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "tkinter", "turtle", "turtledemo", "venv"}
)
_FEWEST_WORDS = 3
_TEST_SHARE = 0.2
_DIM = 256


@dataclass(frozen=True)
class FunctionTexts:
    """Some functions, row by row.

    Attributes:
        names: Where each is: `scipy.optimize.lsq_linear`.
        calls: With its parameters: `scipy.optimize.lsq_linear(A, b, bounds=(-np.inf, np.inf), …)`.
        sentences: The first of its docstring.
    """

    names: tuple[str, ...]
    calls: tuple[str, ...]
    sentences: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class FunctionSearch:
    """The functions on this machine, as a task: find a function by what it does.

    Attributes:
        train: The texts to learn from, in the rows of `split.train`.
        test: Those for the test, in the rows of `split.test`.
        split: Features of the sentences, u, and of the calls, v: (N, 256) float32, rows of norm 1.
        features: What makes features of texts; fitted on both sides of `train`.
        versions: Of Python and of the libraries.
        checksum: Of all texts, 64 hexadecimal digits; the same where the data are.
    """

    train: FunctionTexts
    test: FunctionTexts
    split: Split
    features: TextFeatures
    versions: Mapping[str, str]
    checksum: str

    def encode(self, texts: Sequence[str]) -> Floats:
        """(n, 256) features of n texts of either side, as in `split`."""
        return self.features.encode(texts)

    def encode_query(self, text: str) -> Floats:
        """(256,) features of one query, such as "solve least squares with bounds"."""
        row: Floats = self.features.encode([text])[0]
        return row


@cache
def load_functions() -> FunctionSearch:
    """The public functions of NumPy, SciPy, scikit-learn, torch and the standard library, with their first sentences.

    A pair is the first sentence of a docstring, u, and the call that it describes, v: path, parameters and defaults.
    Functions, methods and classes count if a public path leads to them and the sentence has three words or more. Of
    those whose sentences have the same words, the one with the shortest path is kept. A fifth is for the test: all
    functions of one last name, whatever its case and underscores, are in one part.

    Sources are parsed and nothing is imported. All is a function of the installed versions, up to rounding of the
    features. The result is kept for the next call, and its arrays are read-only.
    """
    found: list[PythonFunction] = []
    for name, place in _libraries():
        found += public_functions(module_files(name, place))
    train, test = split_functions(distinct_functions(found))
    return function_search(train, test, dim=_DIM)


def distinct_functions(found: Iterable[PythonFunction]) -> list[PythonFunction]:
    """Those whose sentence has three words or more, one for each sentence: that with the shortest path."""
    kept: dict[str, PythonFunction] = {}
    for function in sorted(found, key=lambda function: by_length(function.name)):
        words = re.findall(r"\w+", function.sentence.lower())
        if len(words) >= _FEWEST_WORDS:
            kept.setdefault(" ".join(words), function)
    return list(kept.values())


def split_functions(functions: Iterable[PythonFunction]) -> tuple[FunctionTexts, FunctionTexts]:
    """The part to learn from and the one for the test, about a fifth; all functions of one name are in one part."""
    parts: tuple[list[PythonFunction], list[PythonFunction]] = ([], [])
    for function in sorted(functions, key=lambda function: _hash(function.name)):
        last = function.name.rpartition(".")[2].replace("_", "").lower()
        parts[_hash(last) < _TEST_SHARE * 2**64].append(function)
    train, test = (
        FunctionTexts(
            names=tuple(function.name for function in part),
            calls=tuple(function.call for function in part),
            sentences=tuple(function.sentence for function in part),
        )
        for part in parts
    )
    return train, test


def function_search(train: FunctionTexts, test: FunctionTexts, *, dim: int) -> FunctionSearch:
    """The task made of these texts, with features of `dim` numbers that know the training part alone."""
    features = fit_text_features([*train.sentences, *train.calls], dim=dim)
    checksum = _checksum(train, test)
    pairs = []
    for part in (train, test):
        u, v = features.encode(part.sentences), features.encode(part.calls)
        for side in (u, v):
            side.flags.writeable = False  # as several may use them
        pairs.append(Pairs(f"functions {checksum[:12]}", u, v))
    return FunctionSearch(train, test, Split(*pairs), features, _versions(), checksum)


def _libraries() -> Iterator[tuple[str, Path]]:
    """The name and the place of each library; of the standard library, of each of its modules and packages."""
    for name, distribution in _DISTRIBUTIONS.items():
        with needs(distribution, "functions"):
            found = importlib.util.find_spec(name)  # which imports nothing: the name has no dot
            if found is None or not found.submodule_search_locations:
                raise ModuleNotFoundError(name=name)
        yield name, Path(next(iter(found.submodule_search_locations)))
    folder = Path(sysconfig.get_path("stdlib"))
    places = {name: (folder / name, folder / f"{name}.py") for name in sys.stdlib_module_names - _APART}
    there = {name: place for name in sorted(places) for place in places[name] if place.exists()}
    if not there:
        raise FileNotFoundError(f"functions need the sources of the standard library; got none in {folder}")
    yield from there.items()


def _versions() -> dict[str, str]:
    libraries = {distribution: metadata.version(distribution) for distribution in _DISTRIBUTIONS.values()}
    return {"python": platform.python_version()} | libraries


def _checksum(*parts: FunctionTexts) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(
            "".join(f"{call}\t{text}\n" for call, text in zip(part.calls, part.sentences, strict=True)).encode()
        )
        digest.update(b"\n")
    return digest.hexdigest()


def _hash(text: str) -> int:
    """A number below 2⁶⁴ that is the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
