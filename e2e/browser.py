"""A page as a browser shows it, and what it asks for while it is shown."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_SETTINGS: Final = (
    "--headless",
    "--no-sandbox",  # it does not start as root otherwise; what it shows is our own
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--virtual-time-budget=3000",  # milliseconds that a page has for what it does by itself
    "--window-size=1200,2400",
)


def browser() -> str | None:
    """The program; None where there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def shown(program: str, page: str, folder: Path) -> tuple[str, list[str]]:
    """What a page is once it is shown, and the addresses that it asked for, by the browser's own log of its network.

    Args:
        program: of the browser.
        page: HTML.
        folder: for the browser's files; ``page.png`` in it is what a person would see.
    """
    log = folder / "net.json"
    with _served(page) as address:
        command = (program, *_SETTINGS, f"--user-data-dir={folder / 'profile'}")
        done = _run(*command, f"--log-net-log={log}", "--dump-dom", address)
        _run(*command, f"--screenshot={folder / 'page.png'}", address)
    told = json.loads(log.read_text())
    start = told["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    # An event has no parameters where it tells of an end.
    begun = [event.get("params", {}) for event in told["events"] if event["type"] == start]
    # What the browser asks for by itself has no page that it comes from; nor has the page, which the user asked for.
    return done, [each["url"] for each in begun if each.get("initiator", "not an origin") != "not an origin"]


@contextmanager
def _served(page: str) -> Iterator[str]:
    """A page, at an address on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/page.html"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
