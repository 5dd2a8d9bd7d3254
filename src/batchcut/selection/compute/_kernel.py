"""The one decorator of compiled functions."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast, overload

from numba import njit
from numba.core.registry import cpu_target

F = TypeVar("F", bound=Callable[..., Any])


@overload
def kernel(function: F, /) -> F: ...


@overload
def kernel(*, fastmath: bool | set[str] = False, inline: Literal["never", "always"] = "never") -> Callable[[F], F]: ...


def kernel(
    function: F | None = None, /, *, fastmath: bool | set[str] = False, inline: Literal["never", "always"] = "never"
) -> F | Callable[[F], F]:
    """Compiles a function by Numba when it is first called; its type stays what it is.

    Compiled code is kept for later processes where Numba finds a folder that it may write to. Other threads run while
    it does, and a division by zero gives infinity instead of an error, without which loops with divisions would not
    become vector code.

    Args:
        function: What to compile, where the decorator stands without settings.
        fastmath: Whether sums may be reordered and the like, or which of LLVM's flags hold.
        inline: "always" puts the body into its callers before types are known.
    """

    def compiled(function: F) -> F:
        result = njit(nogil=True, error_model="numpy", fastmath=fastmath, inline=inline)(function)
        try:
            result.enable_caching()
        except RuntimeError:  # what Numba raises where it finds no folder
            _warn_of_no_cache()
        return cast(F, result)

    return compiled if function is None else compiled(function)


@functools.cache  # once in a process
def _warn_of_no_cache() -> None:
    warnings.warn(
        "compiled code cannot be kept, since neither the folder of the package nor that of the user's cache can be "
        "written to, so that every process compiles anew, for some seconds; NUMBA_CACHE_DIR names another folder",
        RuntimeWarning,
        stacklevel=2,
    )


# What Numba would load when it first runs a compiled function takes about half a second, which would fall into the
# first plan and so into the midst of a training.
cpu_target.target_context.refresh()
