"""Ctrl-C that stays Ctrl-C."""

import pytest

import batchcut as bc
from batchcut._interrupts import interrupts_kept


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

    monkeypatch.setattr("batchcut.selection._cut.cut", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bc.Cut()([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], batch_size=2)
