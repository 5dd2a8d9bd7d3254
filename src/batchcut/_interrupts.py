"""Ctrl-C that stays Ctrl-C, and is answered while a library is at work."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_CHECK_SECONDS = 0.2


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Gives back an interrupt that came just as a compiled function returned: CPython makes a SystemError of it."""
    try:
        yield
    except SystemError as error:
        cause = error.__cause__
        while isinstance(cause, SystemError):  # a compiled function that returns arrays makes them in Python: twice
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


@contextmanager
def interrupts_answered() -> Iterator[None]:
    """Ends with a KeyboardInterrupt if Ctrl-C came within, whatever became of it on the way.

    Libraries make another error of an interrupt, or lose it, where it comes in a callback, a finalizer or an import
    that compiled code asked for. Noted are interrupts of the main thread under Python's own handler.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is not signal.default_int_handler:
        with interrupts_kept():
            yield
        return
    came = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        came.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    except Exception as error:
        if came.is_set():
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, handler)
    if came.is_set():
        raise KeyboardInterrupt


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
