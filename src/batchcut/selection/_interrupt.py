"""Long library calls that Ctrl-C can leave."""

import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_CHECK_SECONDS = 0.2


def interruptible(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls `function` in a thread, so that Ctrl-C is answered while LAPACK, a matching or a kernel is at work.

    Python handles signals between bytecodes of the main thread only, and such a call may take minutes.
    The thread is a daemon: after an interrupt it ends by itself and does not keep the process alive.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args, **kwargs)
    outcome: dict[str, Any] = {}

    def work() -> None:
        try:
            outcome["result"] = function(*args, **kwargs)
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_CHECK_SECONDS)
    if "error" in outcome:
        raise outcome["error"]
    result: T = outcome["result"]
    return result
