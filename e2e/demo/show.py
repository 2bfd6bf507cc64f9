"""Output of the demo: steps with the time, commands as a user would type them, and their output."""

import codecs
import os
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from e2e.cluster.console import SILENCE_S
from e2e.cluster.paths import cache_dir

ROOT: Final = Path(__file__).resolve().parents[2]
_WIDTH: Final = 100


class DemoError(RuntimeError):
    """A step failed; the message says which and why."""


class Show:
    """The demo's output, and the commands that it runs."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def step(self, what: str) -> None:
        """Print the heading of a part of the demo."""
        print(f"\n══ {what}  [{self.seconds:.0f} s]", flush=True)

    def say(self, text: str = "") -> None:
        """Print a text between two commands."""
        print(text, flush=True)

    def run(self, *command: str, silent: str = "it is still running") -> None:
        """Show a command as the user would type it, and run it.

        Args:
            command: program and arguments.
            silent: what happens while it prints nothing; shown after every ten seconds of silence.

        Raises:
            DemoError: it failed.
        """
        typed = shlex.join(command)
        print(f"\n$ {typed}", flush=True)
        process = subprocess.Popen(command, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE)
        with process:
            assert process.stdout
            _relay(process.stdout, silent, shown=True)
        if process.returncode != 0:
            raise DemoError(f"`{typed}` failed")

    @contextmanager
    def beside(self, *command: str, until: str) -> Iterator[str]:
        """Show a command and run it until the end of the block; the first line of its output that contains ``until`` is returned.

        Raises:
            DemoError: it ended without such a line.
        """
        typed = shlex.join(command)
        print(f"\n$ {typed} &", flush=True)
        process = subprocess.Popen(
            command, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        with process:
            try:
                assert process.stdout
                output = _relay(process.stdout, "it starts", shown=False, until=until)
                line = next((each for each in output.splitlines() if until in each), None)
                if line is None:
                    raise DemoError(f"`{typed}` failed")
                yield line.strip()
            finally:
                process.terminate()

    def keep(self, path: Path, *command: str) -> str:
        """Show a command, run it, and write its output to a file instead of showing it.

        Raises:
            DemoError: it failed.
        """
        self.redirected(path, *command)
        told = self.ask(*command)
        path.write_text(told)
        return told

    def redirected(self, path: Path, *command: str) -> None:
        """Show a command whose output is written to a file."""
        print(f"\n$ {shlex.join(command)} > {path}", flush=True)

    def ask(self, *command: str) -> str:
        """Output of a command, without showing anything but why it is silent for more than ten seconds.

        Raises:
            DemoError: it failed; with its output.
        """
        typed, began = shlex.join(command), time.monotonic()
        with subprocess.Popen(
            command, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            output, errors = _both(process, began, f"`{typed}` is still running")
        if process.returncode != 0:
            raise DemoError(f"`{typed}` failed: {(errors or output).strip()}")
        return output


def _both(process: subprocess.Popen[str], began: float, silent: str) -> tuple[str, str]:
    """All that a program writes to its output and to its errors; every ten seconds it is explained what is waited for."""
    while True:
        try:
            return process.communicate(timeout=SILENCE_S)
        except subprocess.TimeoutExpired:
            _explain(began, silent)


def _explain(began: float, silent: str) -> None:
    print(f"        … {time.monotonic() - began:.0f} s: {silent}", flush=True)


def _relay(source: IO[bytes], silent: str, *, shown: bool, until: str = "") -> str:
    """Read a program's output, and show it; a silence of ten seconds is explained.

    Args:
        source: its output.
        silent: the explanation.
        shown: whether to show the output.
        until: end behind the line that contains this; empty to read all of it.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    began, output = time.monotonic(), ""
    while True:
        ready, _, _ = select.select([source], [], [], SILENCE_S)
        if not ready:
            _explain(began, silent)
            continue
        part = os.read(source.fileno(), 65536)
        text = decoder.decode(part, final=not part)
        output += text
        if shown:
            print(text, end="", flush=True)
        if not part or (until and "\n" in output.partition(until)[2]):
            return output


def _environment() -> dict[str, str]:
    """Commands write to a pipe; in a terminal they format their output for it all the same."""
    given = dict(os.environ)
    # Where Python may not store compiled modules, each of some twenty commands compiles hundreds of them again. The cache may hold them.
    if given.pop("PYTHONDONTWRITEBYTECODE", ""):
        given.setdefault("PYTHONPYCACHEPREFIX", str(cache_dir() / "python"))
    if not sys.stdout.isatty():
        return {**given, "COLUMNS": str(_WIDTH)}
    return {"FORCE_COLOR": "1", "COLUMNS": str(shutil.get_terminal_size().columns), **given}
