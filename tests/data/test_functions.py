import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from batchcut.data import FunctionSearch, FunctionTexts, Pairs, load, load_functions
from batchcut.data._functions import distinct_functions, function_search, split_functions
from batchcut.data._python_sources import PythonFunction


def function(name: str, sentence: str) -> PythonFunction:
    return PythonFunction(name, f"{name}(x)", sentence)


def some_functions(count: int) -> list[PythonFunction]:
    return [
        function(f"lib.part{number % 7}.do_{number}", f"Does the thing number {number}.") for number in range(count)
    ]


def test_of_functions_that_say_the_same_the_shortest_path_is_kept() -> None:
    found = [
        function("a.b.c.f", "Add two numbers."),
        function("a.g", "add *two* numbers"),
        function("a.b.h", "Add two numbers!"),
        function("a.two_words", "Add numbers."),
        function("a.none", ""),
        function("a.b.other", "Add two rows."),
    ]
    assert [kept.name for kept in distinct_functions(found)] == ["a.g", "a.b.other"]


def test_all_functions_of_one_name_are_in_one_part() -> None:
    found = [
        function(f"lib{place}.{name}", f"{place} {name}") for name in ("ReLU", "relu", "re_lu") for place in range(40)
    ]
    train, test = split_functions(found)
    assert sorted([len(train), len(test)]) == [0, 120]


def test_about_a_fifth_is_for_the_test() -> None:
    train, test = split_functions(some_functions(5000))
    assert len(train) + len(test) == 5000
    assert 900 < len(test) < 1100


def test_the_split_does_not_depend_on_the_order_or_on_what_else_there_is() -> None:
    found = some_functions(100)
    train, test = split_functions(found)
    assert split_functions(found[::-1]) == (train, test)
    fewer, _ = split_functions(found[:50])
    assert set(fewer.names) <= set(train.names)
    assert [name for name in train.names if name in fewer.names] == list(fewer.names)


def test_the_first_functions_are_a_sample_of_all() -> None:
    train, _ = split_functions(some_functions(700))
    assert {name.split(".")[1] for name in train.names[:70]} == {f"part{number}" for number in range(7)}


def made(count: int = 60) -> FunctionSearch:
    return function_search(*split_functions(some_functions(count)), dim=8)


def test_rows_of_texts_are_rows_of_features() -> None:
    search = made()
    for texts, pairs in ((search.train, search.split.train), (search.test, search.split.test)):
        assert isinstance(pairs, Pairs)
        np.testing.assert_allclose(pairs.u, search.encode(texts.sentences), atol=1e-6)
        np.testing.assert_allclose(pairs.v, search.encode(texts.calls), atol=1e-6)
        np.testing.assert_allclose(search.encode_query(texts.sentences[0]), pairs.u[0], atol=1e-6)


def test_features_know_the_training_part_alone() -> None:
    train, test = split_functions(some_functions(60))
    other = FunctionTexts(names=test.names, calls=test.calls, sentences=tuple("Something else." for _ in test.names))
    ours, theirs = (function_search(train, part, dim=8) for part in (test, other))
    np.testing.assert_array_equal(ours.encode_query("the thing"), theirs.encode_query("the thing"))
    assert ours.checksum != theirs.checksum


def test_the_checksum_names_the_data() -> None:
    search = made()
    assert search.checksum == made().checksum
    assert isinstance(search.split.train, Pairs)
    assert search.split.train.name == f"functions {search.checksum[:12]}"


def test_features_are_read_only() -> None:
    train = made().split.train
    assert isinstance(train, Pairs)
    with pytest.raises(ValueError, match="read-only"):
        train.u[0] = 0


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    load_functions.cache_clear()
    monkeypatch.setattr("batchcut.data._functions.public_functions", lambda files: [])
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match="functions need scikit-learn, and sklearn is not installed"):
        load_functions()


def test_missing_sources_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    load_functions.cache_clear()
    monkeypatch.setattr("batchcut.data._functions.public_functions", lambda files: [])
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=f"functions need the sources of the standard library; got none in {tmp_path}"
    ):
        load_functions()


@pytest.fixture(scope="module")
def here() -> FunctionSearch:
    """The functions on this machine."""
    load_functions.cache_clear()
    return load_functions()


@pytest.mark.slow
def test_the_functions_on_this_machine(here: FunctionSearch) -> None:
    assert 7_000 < len(here.train) < 10_000
    assert 1_700 < len(here.test) < 2_500
    parts = {name.partition(".")[0] for name in here.train.names}
    assert {"numpy", "scipy", "sklearn", "torch", "json"} <= parts
    assert not {"tkinter", "test", "batchcut"} & parts
    names = [*here.train.names, *here.test.names]
    assert len(set(names)) == len(names)
    for name in (
        "numpy.mean",
        "scipy.optimize.lsq_linear",
        "sklearn.linear_model.Ridge",
        "torch.nn.Linear",
        "json.dumps",
    ):
        assert name in names
    assert not set(here.train.sentences) & set(here.test.sentences)
    assert set(here.versions) == {"python", "numpy", "scipy", "scikit-learn", "torch"}


@pytest.mark.slow
def test_their_features(here: FunctionSearch) -> None:
    assert load("functions") is here.split
    for part, texts in ((here.split.train, here.train), (here.split.test, here.test)):
        assert isinstance(part, Pairs)
        for side in (part.u, part.v):
            assert side.shape == (len(texts), 256)
            assert side.dtype == np.float32
            np.testing.assert_allclose(np.linalg.norm(side, axis=1), 1, rtol=1e-5)
    assert here.encode_query("solve least squares with bounds").shape == (256,)


@pytest.mark.slow
def test_they_are_the_same_when_read_again(here: FunctionSearch) -> None:
    load_functions.cache_clear()
    again = load_functions()
    assert again is not here
    assert (again.train, again.test, again.checksum) == (here.train, here.test, here.checksum)
