"""Drives a headless Chromium by its DevTools protocol over a pair of pipes; needs nothing beyond Python."""

import base64
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)


_START = """
import fcntl, os, sys
high = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(high[0], 3)
os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser speaks the protocol on the descriptors 3 (to it) and 4 (from it)."""


def axe_source() -> Path | None:
    """The file of axe-core that a package on PyPI carries; None where it is not installed."""
    found = importlib.util.find_spec("axe_playwright_python")
    places = [] if found is None else list(found.submodule_search_locations or [])
    return Path(places[0]) / "axe.min.js" if places else None


class Page:
    """A page in the browser.

    Attributes:
        errors: messages of errors, and of whatever was written to the console as such.
        requests: addresses asked for, but for data in the page itself.
    """

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._write, self._read = os.fdopen(to_browser, "wb"), os.fdopen(from_browser, "rb")
        self._number, self._rest, self._session = 0, b"", ""
        self._waiting: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Opens a file and waits until it is there."""
        self.resize(width=width, height=height, dark=dark)
        self._waiting.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._waiting):
            self._receive()

    def resize(self, *, width: int, height: int, dark: bool) -> None:
        """Sets the size of the window and whether the reader wants it dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, code: str) -> Any:
        """The value of an expression of JavaScript; a promise is waited for."""
        options = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=code, **options)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def press(self, key: str, *, text: str = "") -> None:
        """Presses a key of the keyboard, such as "Tab" or "Enter"."""
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowDown": 40, " ": 32}
        what = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": codes.get(key, 0)}
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **what, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **what)

    def click(self, selector: str) -> None:
        """Clicks the middle of an element with the mouse."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center', "
            "behavior: 'instant'}); const r = e.getBoundingClientRect(); "
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        where = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", **where)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **where)

    def screenshot(self, path: Path) -> None:
        """Writes a picture of the whole page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """Asks the browser to end."""
        self._session = ""
        self.call("Browser.close")
        self._write.close()
        self._read.close()

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read.fileno(), 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        event: dict[str, Any] = json.loads(line)
        self._note(event.get("method", ""), event.get("params", {}))
        self._waiting.append(event)
        return event

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"])[:1000])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(parameters["args"])[:1000])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith("data:"):
            self.requests.append(parameters["request"]["url"])


@contextmanager
def chromium() -> Iterator[Page]:
    """A page in a browser of its own, which is gone afterwards."""
    if PROGRAM is None:
        raise RuntimeError("no chromium")
    down_read, down_write = os.pipe()
    up_read, up_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [sys.executable, "-c", _START, f"{down_read}", f"{up_write}", PROGRAM, *_FLAGS]
        command.append(f"--user-data-dir={profile}")
        process = subprocess.Popen(command, pass_fds=(down_read, up_write), stderr=subprocess.DEVNULL)
        os.close(down_read)
        os.close(up_write)
        try:
            page = Page(down_write, up_read)
            yield page
            page.close()
        finally:
            process.terminate()
            process.wait(timeout=20)
