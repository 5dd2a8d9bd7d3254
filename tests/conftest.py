"""Settings and fixtures that all tests share."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# A shell that starts the tests in the background has them ignore Ctrl-C, and so all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Timings on a busy machine are no failure; the same examples on every run.
settings.register_profile("batchcut", deadline=None, derandomize=True)
settings.load_profile("batchcut")

# Playwright has most of them among its own; they are what a browser in a container without network needs.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


@pytest.fixture(autouse=True)
def no_lines_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What verbs say of work that takes long would depend on how busy the machine is."""
    monkeypatch.setattr("batchcut.cli._progress.pauses", lambda: iter(()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a browser, two processes (the fixture `ranks`) or the machine for itself is slow."""
    for item in items:
        if {"browser", "ranks"} & set(getattr(item, "fixturenames", ())) or item.get_closest_marker("alone"):
            item.add_marker("slow")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """The system's Chromium; one for each module, since the event loop of Playwright is in the way of others."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium here (Debian: apt install chromium)")
    from playwright.sync_api import sync_playwright

    shown = ["--hide-scrollbars"]  # they take room from the page as they do for a reader
    with ExitStack() as stack:
        chromium = stack.enter_context(sync_playwright()).chromium
        yield stack.enter_context(chromium.launch(executable_path=program, args=_FLAGS, ignore_default_args=shown))


class OpenPage(Protocol):
    """Opens a file in a page of its own, as wide as said, for a reader who wants it light or dark."""

    def __call__(self, path: Path, *, width: int = 1200, dark: bool = False) -> "Page": ...


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[OpenPage]:
    """Pages in which nothing may go wrong, and which may ask for nothing but themselves."""
    from tests._browser import Seen, opened

    with ExitStack() as pages:
        seen: list[tuple[Path, Seen]] = []

        def opens(path: Path, *, width: int = 1200, dark: bool = False) -> "Page":
            page, events = pages.enter_context(opened(browser, path, width=width, dark=dark))
            seen.append((path, events))
            return page

        yield opens
        for path, events in seen:
            assert events.errors == []
            assert events.requests == [path.resolve().as_uri()]
