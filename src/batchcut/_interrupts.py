"""Ctrl-C that stays Ctrl-C, and is answered while a library is at work."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Generic, ParamSpec, TypeVar

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


class Task(Generic[T]):
    """A call in a thread of its own, a daemon: it does not keep the process alive."""

    def __init__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        outcome: dict[str, Any] = {}
        ended = threading.Event()

        def work() -> None:  # without a word of this object, so that its thread does not keep it
            try:
                outcome["result"] = function(*args, **kwargs)
            except BaseException as error:
                outcome["error"] = error
            finally:
                ended.set()

        self._outcome, self._ended = outcome, ended
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def wait(self, seconds: float = math.inf) -> None:
        """Waits for the end of the call, for so long at most; Ctrl-C is answered, and one can wait again after it."""
        end = time.monotonic() + seconds
        while not self._ended.is_set() and (left := end - time.monotonic()) > 0:
            self._ended.wait(min(left, _CHECK_SECONDS))
        if self._ended.is_set():  # not before: in Python 3.11 a thread whose join was interrupted counts as ended
            self._thread.join()

    def result(self) -> T:
        """Waits, and gives what the call returned, or raises what it raised, with its own traceback."""
        self.wait()
        if "error" in self._outcome:
            raise self._outcome["error"]
        result: T = self._outcome["result"]
        return result


def interruptible(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls `function` in a thread, so that Ctrl-C is answered while LAPACK, a matching or a kernel is at work.

    Python handles signals between bytecodes of the main thread only, and such a call may take minutes.
    After an interrupt the thread ends by itself.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args, **kwargs)
    return Task(function, *args, **kwargs).result()
