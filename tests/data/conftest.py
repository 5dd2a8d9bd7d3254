"""A real HTTP server on the loopback, which can be told to misbehave."""

import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest


@dataclass
class Server:
    """What the server has, what it was asked for, and how it misbehaves."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    ranges: bool = True
    break_after: int | None = None
    breaks: int = 0
    answers: list[int] = field(default_factory=list)
    address: str = ""

    def url(self, name: str) -> str:
        return f"{self.address}/{name}"


def _handler(server: Server) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            server.asked.append((self.path, wanted))
            content = server.files.get(self.path.lstrip("/"))
            code = server.answers.pop(0) if server.answers else 200
            if content is None or code != 200:
                self.send_error(404 if content is None else code)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
            if wanted and start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if wanted and server.ranges else 200)
            if wanted and server.ranges:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            body = content[start:]
            if server.break_after is not None and server.breaks > 0:
                server.breaks -= 1
                body = body[: server.break_after]
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing."""

    return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(told))
    told.address = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield told
    listening.shutdown()
    thread.join()
    listening.server_close()
