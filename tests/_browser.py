"""Pages in the system's Chromium, and what goes wrong in them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize


@dataclass(frozen=True)
class Seen:
    """What a page did on its own.

    Attributes:
        errors: messages of errors, and of whatever was written to the console as such.
        requests: addresses asked for, but for data in the page itself.
    """

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def opened(browser: Browser, path: Path, *, width: int = 1200, dark: bool = False) -> Iterator[tuple[Page, Seen]]:
    """A file in a page of its own; a narrow one is a phone's."""
    size: ViewportSize = {"width": width, "height": 900}
    scheme: Literal["dark", "light"] = "dark" if dark else "light"
    with browser.new_context(viewport=size, is_mobile=width < 600, color_scheme=scheme) as context:
        page = context.new_page()
        seen = _watched(page)
        page.goto(path.resolve().as_uri())
        yield page, seen


def _watched(page: Page) -> Seen:
    seen = Seen()

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            seen.errors.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url))
    return seen
