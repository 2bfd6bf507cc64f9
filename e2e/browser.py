"""Renders a page in a headless browser and records its network requests."""

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
    "--no-sandbox",  # it does not start as root otherwise; the page is our own
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--virtual-time-budget=3000",  # milliseconds for the page's own scripts
    "--window-size=1200,2400",
)


def browser() -> str | None:
    """Path of the browser; None if there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def shown(program: str, page: str, folder: Path) -> tuple[str, list[str]]:
    """The DOM of a rendered page, and the addresses that it requested, from the browser's own network log.

    Args:
        program: the browser.
        page: HTML.
        folder: for the browser's files; ``page.png`` in it is a screenshot.
    """
    log = folder / "net.json"
    with _served(page) as address:
        command = (program, *_SETTINGS, f"--user-data-dir={folder / 'profile'}")
        done = _run(*command, f"--log-net-log={log}", "--dump-dom", address)
        _run(*command, f"--screenshot={folder / 'page.png'}", address)
    told = json.loads(log.read_text())
    start = told["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    # An event that marks an end has no parameters.
    begun = [event.get("params", {}) for event in told["events"] if event["type"] == start]
    # Requests by the browser itself have no initiating page; nor has the request for the page.
    return done, [each["url"] for each in begun if each.get("initiator", "not an origin") != "not an origin"]


@contextmanager
def _served(page: str) -> Iterator[str]:
    """A page at an address on this machine."""

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
