"""The decorator of compiled functions."""

import numpy as np

from batchcut.selection.compute import kernel


@kernel
def halved(x: float, y: float) -> float:
    """x / y."""
    return x / y


@kernel(fastmath=True, inline="always")
def doubled(x: float) -> float:
    """2 x."""
    return 2 * x


def test_functions_are_compiled_and_keep_what_they_say() -> None:
    assert doubled(halved(3.0, 2.0)) == 3.0
    assert halved.__doc__ == "x / y."
    assert halved(1.0, 0.0) == np.inf  # Numba's own default would raise an error


def test_options_of_all_kernels_stand_in_one_place() -> None:
    for function in (halved, doubled):
        options = vars(function)["targetoptions"]
        assert options["nogil"]
        assert options["error_model"] == "numpy"
    assert vars(doubled)["targetoptions"]["fastmath"]
