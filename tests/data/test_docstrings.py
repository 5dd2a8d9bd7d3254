import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcut.data._docstrings import first_sentence


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("Return the mean. Of all.", "Return the mean."),
        ("Return the\nmean of all\n\nMore text.", "Return the mean of all"),
        ("Is it one? Yes.", "Is it one?"),
        ("Numbers, e.g. NumPy's, are added. More.", "Numbers, e.g. NumPy's, are added."),
        ("The gradient w.r.t. x and i.e. y. More.", "The gradient w.r.t. x and i.e. y."),
        ("Means, sums, etc. of rows. More.", "Means, sums, etc. of rows."),
        ("Means, sums, etc. More.", "Means, sums, etc."),
        ("Scale by 0.5 in numpy.linalg style. More.", "Scale by 0.5 in numpy.linalg style."),
        ("Say (it is so.) More.", "Say (it is so.)"),
        ("Add :func:`~torch.add` to :math:`x` and ``y``.", "Add torch.add to x and y."),
        ("See :ref:`the notes <notes>` of it.", "See the notes of it."),
        ("Add two rows\nArgs:\n    x: one.", "Add two rows"),
        ("Add two rows\n----------\nOf numbers.", "Add two rows"),
        ("Add two rows\n>>> add(1, 2)\n3", "Add two rows"),
        ("Add two rows\n:param x: one.", "Add two rows"),
        (".. deprecated:: 1.0\n    Do not use it.\n\n    At all.\n\nAdd two rows.", "Add two rows."),
        ("Parameters\n----------\nx : one", ""),
        ("", ""),
    ],
)
def test_first_sentence(docstring: str, sentence: str) -> None:
    assert first_sentence(docstring, "add") == sentence


@pytest.mark.parametrize(
    "docstring",
    [
        "add(x, y=(1, 2)) -> Tensor\n\nAdd two rows. More.",
        "add(x, y) -> Tensor\nAdd two rows. More.",
        "add(x) -> Tensor\nadd(x, y) -> Tensor\n\nAdd two rows. More.",
        "D.add(x) -> None.  Add two rows. More.",
        "add(x, y) -- Add two rows. More.",
        "add(x,\n    y)\n\nAdd two rows. More.",
        "__init__(x, y)\n\nAdd two rows. More.",
    ],
)
def test_the_call_at_the_beginning_is_no_sentence(docstring: str) -> None:
    assert first_sentence(docstring, "add") == "Add two rows."


def test_the_call_of_another_function_is_left() -> None:
    assert first_sentence("subtract(x) and add(y) differ.", "add") == "subtract(x) and add(y) differ."


def test_a_call_without_an_end_is_no_sentence() -> None:
    assert first_sentence("add(x, y", "add") == ""


@given(st.text(alphabet="ab. \nA?", max_size=60))
def test_a_sentence_stands_in_the_text_as_it_is(docstring: str) -> None:
    sentence = first_sentence(docstring, "add")
    assert f" {sentence} " in f" {' '.join(docstring.split())} " or not sentence
    assert not re.search(r"[.?] +[Aab]", sentence.replace("a.", "").replace("b.", "").replace("A.", ""))
