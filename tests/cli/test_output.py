"""How results are printed."""

import json
import math

from batchcut.cli._output import as_json


def test_json_has_null_for_what_is_not_finite() -> None:
    content = {"a": math.inf, "b": [math.nan, 1.5, {"c": -math.inf}], "d": (True, None, "NaN"), "e": 10**400}
    printed = as_json(content)
    assert json.loads(printed, parse_constant=lambda word: 1 / 0) == {
        "a": None,
        "b": [None, 1.5, {"c": None}],
        "d": [True, None, "NaN"],
        "e": 10**400,
    }
