"""Drives a headless Chromium through its DevTools protocol: opens pages, presses keys, reads what a screen reader gets, takes screenshots."""

import base64
import itertools
import json
import os
import queue
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from e2e.browser import browser
from e2e.cluster.debian import MissingProgramError, ensure_programs

_SETTINGS: Final = (
    "--headless=new",
    "--no-sandbox",  # it does not start as root otherwise; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--remote-debugging-pipe",
    "--window-size=1600,1000",
)
_ANSWER_S: Final = 60.0
_POLL_S: Final = 0.02
# Name of a key → code of Windows, by which the protocol tells keys apart.
_KEYS: Final = {
    "Enter": 13, "Escape": 27, "Tab": 9, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip
_SHIFT: Final = 8


class PageError(AssertionError):
    """The page did not do what was expected of it."""


def find_chromium() -> str | None:
    """Path of the browser, which is installed on Debian if it is missing; None if the machine cannot have one."""
    with suppress(MissingProgramError, subprocess.CalledProcessError):
        if browser() is None:
            ensure_programs("chromium")
    return browser()


class Chromium:
    """Context manager: one browser process with a profile of its own."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        ours_in, its_out = os.pipe()
        its_in, ours_out = os.pipe()
        command = (self._program, *_SETTINGS, f"--user-data-dir={self._folder / 'chromium'}")
        # It reads commands from descriptor 3 and writes to 4.
        self._process = subprocess.Popen(
            ("bash", "-c", f'exec "$@" 3<&{its_in} 4>&{its_out}', "bash", *command),
            pass_fds=(its_in, its_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_in)
        os.close(its_out)
        self._out = ours_out
        self._reader = threading.Thread(target=self._read, args=(ours_in,), daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(PageError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        self._reader.join(timeout=10)

    @property
    def pid(self) -> int:
        """Process id of the browser's main process."""
        return self._process.pid

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One command and its answer.

        Raises:
            PageError: the browser refused it or did not answer.
        """
        number = next(self._numbers)
        self._answers[number] = queue.Queue()
        message = {
            "id": number,
            "method": method,
            "params": parameters,
            **({"sessionId": session} if session else {}),
        }
        os.write(self._out, json.dumps(message).encode() + b"\0")
        try:
            answer = self._answers[number].get(timeout=_ANSWER_S)
        except queue.Empty:
            raise PageError(f"{method}: the browser did not answer") from None
        finally:
            del self._answers[number]
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']}")
        return dict(answer["result"])

    def tab(self) -> "Tab":
        """A new, empty tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Tab(self, session)

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as stream:
            rest = b""
            while chunk := stream.read1(1 << 20):
                *messages, rest = (rest + chunk).split(b"\0")
                for each in map(json.loads, messages):
                    if "id" not in each:
                        self.events.append(each)
                    elif each["id"] in self._answers:
                        self._answers[each["id"]].put(each)


class Tab:
    """One page."""

    def __init__(self, chromium: Chromium, session: str) -> None:
        self._chromium = chromium
        self._session = session
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(f"{domain}.enable")
        self.call("Performance.enable", timeDomain="threadTicks")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """As `Chromium.call`, for this page."""
        return self._chromium.call(method, self._session, **parameters)

    def open(self, url: str) -> None:
        """Go to an address; does not wait until it is loaded.

        Raises:
            PageError: nothing answers there.
        """
        if error := self.call("Page.navigate", url=url).get("errorText"):
            raise PageError(f"{url}: {error}")

    def evaluate(self, expression: str) -> Any:
        """Value of an expression of JavaScript; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise PageError(f"{expression}: {found['exceptionDetails']['exception'].get('description')}")
        return found["result"].get("value")

    def wait(self, expression: str, seconds: float = 20.0) -> Any:
        """The value of an expression as soon as it is truthy; errors count as not yet."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(PageError):
                if value := self.evaluate(f"(v => v instanceof Node ? true : v)({expression})"):
                    return value
            time.sleep(_POLL_S)  # noqa: TID251 - how often to look
        raise PageError(f"not within {seconds:.0f} s: {expression}\n{self.text()[:2000]}")

    def text(self) -> str:
        """What the page shows."""
        return str(self.evaluate("document.body?.innerText ?? ''"))

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press and release a key, as a user does: ``ArrowDown``, ``Enter``, ``n``."""
        printed = key if len(key) == 1 else "\r" if key == "Enter" else ""
        common: dict[str, Any] = {
            "key": key,
            "code": key if len(key) > 1 else f"Key{key.upper()}",
            "windowsVirtualKeyCode": _KEYS.get(key, ord(key.upper()[0])),
            "modifiers": _SHIFT if shift else 0,
        }
        self.call(
            "Input.dispatchKeyEvent", type="keyDown" if printed else "rawKeyDown", text=printed, **common
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def accessible(self) -> list[tuple[str, str]]:
        """Role and name of every node that a screen reader gets."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (str(node["role"]["value"]), str(node.get("name", {}).get("value", "")))
            for node in nodes
            if not node.get("ignored")
        ]

    def dark(self, *, on: bool) -> None:
        """Emulate a user's preference for dark pages, or for light ones."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window's contents in pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def screenshot(self, path: Path) -> None:
        """Save what is visible as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def requested(self) -> list[str]:
        """Addresses that the page asked for."""
        return [str(event["params"]["request"]["url"]) for event in self._events("Network.requestWillBeSent")]

    def complaints(self) -> list[str]:
        """Errors in the console: exceptions, violations of the Content-Security-Policy."""
        thrown = [
            str(event["params"]["exceptionDetails"]) for event in self._events("Runtime.exceptionThrown")
        ]
        logged = [event["params"]["entry"] for event in self._events("Log.entryAdded")]
        return thrown + [
            f"{each['text']} {each.get('url', '')}" for each in logged if each["level"] == "error"
        ]

    def _events(self, method: str) -> list[dict[str, Any]]:
        return [
            event
            for event in self._chromium.events
            if event["method"] == method and event.get("sessionId") == self._session
        ]
