import math

import numpy as np
import pytest

from batchcut._errors import check_choice, check_flag, check_integer, check_positive, invalid, unknown_name, wrong_type


def test_an_invalid_value_names_argument_rule_and_value() -> None:
    error = invalid("k", "be at least 1", 0)
    assert isinstance(error, ValueError)
    assert str(error) == "k must be at least 1; got 0"


def test_a_wrong_type_names_the_type() -> None:
    error = wrong_type("u", "be a torch tensor", [1.0])
    assert isinstance(error, TypeError)
    assert str(error) == "u must be a torch tensor; got list"


@pytest.mark.parametrize("value", [2, 5, np.int32(3), np.uint8(5)])
def test_integers_in_range_come_back_as_int(value: object) -> None:
    number = check_integer("k", value, at_least=2, at_most=5)
    assert type(number) is int
    assert number == value


@pytest.mark.parametrize("value", [True, 2.0, "2", None, np.float64(2)])
def test_other_types_are_no_integers(value: object) -> None:
    with pytest.raises(TypeError, match=rf"^k must be an integer; got {type(value).__name__}$"):
        check_integer("k", value, at_least=0)


def test_a_type_with_the_name_of_another_is_named_in_full() -> None:
    with pytest.raises(TypeError, match=r"^normalize must be True or False; got numpy\.bool$"):
        check_flag("normalize", np.True_)


def test_a_choice_is_a_string() -> None:
    with pytest.raises(ValueError, match=r"^mode must be one of 'a', 'b'; got array"):
        check_choice("mode", np.array(["a", "b"]), ("a", "b"))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "k must be at least 2; got 1"), (6, "k must be at most 5; got 6"), (-3, "k must be at least 2; got -3")],
)
def test_integers_out_of_range_are_refused(value: int, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        check_integer("k", value, at_least=2, at_most=5)


def test_without_an_upper_bound_any_size_will_do() -> None:
    assert check_integer("k", 10**400, at_least=2) == 10**400


@pytest.mark.parametrize("value", [1, 0.25, np.float32(0.5), 5e-324])
def test_positive_numbers_come_back_as_float(value: float) -> None:
    number = check_positive("temperature", value)
    assert type(number) is float
    assert number == value


@pytest.mark.parametrize("value", [True, "1", None, 1j, [1.0]])
def test_other_types_are_no_numbers(value: object) -> None:
    with pytest.raises(TypeError, match=rf"^temperature must be a number; got {type(value).__name__}$"):
        check_positive("temperature", value)


@pytest.mark.parametrize("value", [0, 0.0, -0.5, math.inf, -math.inf, math.nan])
def test_numbers_that_are_not_positive_or_finite_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=rf"^temperature must be finite and above 0; got {value}$"):
        check_positive("temperature", value)


def test_one_of_many_names_is_not_all_of_them() -> None:
    names = [f"name-{number}" for number in range(20)]
    error = unknown_name("recipe", "nam-11", names, listed="`batchcut list`")
    assert str(error) == (
        "recipe must be a name that is known; got 'nam-11'\ndid you mean name-11? `batchcut list` names all 20."
    )
    error = unknown_name("recipe", "other", names, listed="`batchcut list`")
    assert str(error).splitlines()[1] == "`batchcut list` names all 20."
