"""The one decorator of compiled functions."""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast, overload

from numba import njit
from numba.core.caching import FunctionCache
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
        result: Any = njit(nogil=True, error_model="numpy", fastmath=fastmath, inline=inline)(function)
        try:
            result._cache = _Kept(function)  # type: ignore[no-untyped-call]
        except RuntimeError:  # what Numba raises where it finds no folder
            _warn_of_no_cache("neither the folder of the package nor that of the user's cache can be written to")
        return cast(F, result)

    return compiled if function is None else compiled(function)


class _Kept(FunctionCache):
    """Numba's files of compiled code, without which all goes on: a full disk or a damaged file is no reason to stop."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What is kept, or None: damaged files, whatever they make a pickle raise, are written anew."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:
            with contextlib.suppress(OSError):
                self.flush()  # type: ignore[no-untyped-call]
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps what was compiled, where that can be done."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except Exception as error:
            _warn_of_no_cache(f"{self.cache_path} cannot be written to ({error})")


_warned: set[str] = set()


def _warn_of_no_cache(reason: str) -> None:
    """Once in a process."""
    if not _warned:
        _warned.add(reason)
        warnings.warn(
            f"compiled code cannot be kept, since {reason}, so that every process compiles anew, for some seconds; "
            "NUMBA_CACHE_DIR names another folder",
            RuntimeWarning,
            stacklevel=2,
        )


# What Numba would load when it first runs a compiled function takes about half a second, which would fall into the
# first plan and so into the midst of a training.
cpu_target.target_context.refresh()
