"""Ctrl-C that stays Ctrl-C."""

import _thread
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

import batchcut as bc
from batchcut._interrupts import interruptible, interrupts_answered, interrupts_kept
from batchcut.selection.compute import most_similar


def test_an_interrupt_that_became_another_error_is_one_again() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_kept():
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()


@pytest.mark.parametrize("error", [SystemError("something else"), ValueError("wrong"), KeyboardInterrupt()])
def test_others_stay_what_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, interrupts_kept():
        raise error
    assert caught.value is error


def test_selectors_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("batchcut.selection.cut.search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bc.Cut()([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], batch_size=2)


def _lost() -> None:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def _turned() -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("made of an interrupt by a library") from None


@pytest.mark.parametrize("work", [_lost, _turned])
def test_an_interrupt_is_answered_whatever_became_of_it(work: Callable[[], None]) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_answered():
            work()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_is_no_interrupt_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="of its own"), interrupts_answered():
        raise RuntimeError("of its own")
    with interrupts_answered():
        pass


def test_a_handler_of_the_user_stays_in_place() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_answered():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that interrupt")
def test_interrupts_of_compiled_functions_that_return_arrays() -> None:
    closeness = np.random.default_rng(0).standard_normal((256, 2000)).astype(np.float32)
    most_similar(closeness, 17)

    def work(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while True:
            most_similar(closeness, 17)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for milliseconds in range(1, 21):  # nearly all come while the function is at work
            with pytest.raises(KeyboardInterrupt), interrupts_kept():
                work(milliseconds / 1000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.alone
def test_library_calls_can_be_interrupted() -> None:
    threading.Timer(0.2, _thread.interrupt_main).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        interruptible(time.sleep, 5)
    assert time.perf_counter() - start < 3
    assert interruptible(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        interruptible(divmod, 1, 0)
