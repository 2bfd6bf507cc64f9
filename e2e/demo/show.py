"""Output of the demo: steps with the time, commands as a user would type them, and their output."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

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

    def run(self, *command: str, last: int = 0) -> None:
        """Show a command as the user would type it, and run it.

        Args:
            command: program and arguments.
            last: show only this many lines of the end of its output, unless it fails; 0 shows all of it as it arrives.

        Raises:
            DemoError: it failed.
        """
        typed = shlex.join(command)
        print(f"\n$ {typed}" + (f" | tail -n {last}" if last else ""), flush=True)
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=_environment(),
            check=False,
            text=True,
            stdout=subprocess.PIPE if last else None,
        )
        if last:
            lines = done.stdout.splitlines()
            print("\n".join(lines if done.returncode else lines[-last:]), flush=True)
        if done.returncode != 0:
            raise DemoError(f"`{typed}` failed")

    def keep(self, path: Path, *command: str) -> str:
        """Show a command, run it, and write its output to a file instead of showing it.

        Raises:
            DemoError: it failed.
        """
        print(f"\n$ {shlex.join(command)} > {path}", flush=True)
        told = self.ask(*command)
        path.write_text(told)
        return told

    def ask(self, *command: str) -> str:
        """Output of a command, without showing anything.

        Raises:
            DemoError: it failed; with its output.
        """
        done = subprocess.run(
            command, cwd=ROOT, env=_environment(), check=False, text=True, capture_output=True
        )
        if done.returncode != 0:
            raise DemoError(f"`{shlex.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout


def _environment() -> dict[str, str]:
    width = {} if sys.stdout.isatty() else {"COLUMNS": str(_WIDTH)}
    return {**os.environ, **width}
