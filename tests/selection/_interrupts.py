"""Work that is interrupted."""

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest


def interrupted_after(work: Callable[[], object], *, signalled: bool = False) -> float:
    """The seconds that work goes on after Ctrl-C; unless `signalled`, one that wakes no sleeping call."""
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        if signalled:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            _thread.interrupt_main()

    threading.Timer(0.5, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        work()
    return time.perf_counter() - sent[0]
