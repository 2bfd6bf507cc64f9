"""Processes that outlive the command that started them, distinguished from later processes with the same pid."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.waiting import wait_for


@dataclass(frozen=True)
class Process:
    """A process: its pid, and its start time (clock ticks since boot), which no later process with the same pid shares."""

    pid: int
    started: int

    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        found = _stat(self.pid)
        return found is not None and found == (self.started, True)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def stop(self, *, grace: float = 5.0) -> None:
        """End it: with SIGTERM first, after ``grace`` seconds with SIGKILL. Returns when it has ended."""
        if grace > 0:
            self.signal(signal.SIGTERM)
            try:
                wait_for(f"end of process {self.pid}", lambda: not self.alive(), seconds=grace, every=0.02)
            except TimeoutError:
                pass
            else:
                return
        self.signal(signal.SIGKILL)
        wait_for(f"end of process {self.pid}", lambda: not self.alive(), seconds=20, every=0.02)

    def children(self) -> list["Process"]:
        """Its direct children, from the kernel's list."""
        try:
            listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except OSError:
            return []
        return [child for pid in listed.split() if (child := identify(int(pid)))]


def identify(pid: int) -> Process | None:
    """The process that has this pid now, or None."""
    found = _stat(pid)
    return Process(pid, found[0]) if found and found[1] else None


def spawn(
    command: Sequence[str | Path],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    dies_with_us: bool = False,
) -> Process:
    """Start a process in the background, in a session of its own, its output appended to a log file.

    Args:
        command: program and arguments.
        log: file for its output; folders are created.
        env: additional environment variables.
        dies_with_us: the kernel kills it when the calling thread ends.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    arguments = [str(part) for part in command]
    if dies_with_us:
        arguments = ["setpriv", "--pdeathsig", "KILL", "--", *arguments]
    with log.open("ab") as output:
        started = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    _ours[started.pid] = started
    found = _stat(started.pid)
    return Process(started.pid, found[0] if found else 0)


# Children of this process must be reaped by it, otherwise they stay zombies as long as it runs.
_ours: dict[int, subprocess.Popen[bytes]] = {}


def _stat(pid: int) -> tuple[int, bool] | None:
    """(start time, whether it runs) of a pid, or None; reaps it if it is a dead child of ours."""
    child = _ours.get(pid)
    if child is not None and child.poll() is not None:
        del _ours[pid]
        return None
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the name in parentheses, and may contain anything; the fields after the last parenthesis are regular.
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in "ZX" and child is not None:
        child.wait()
        del _ours[pid]
    return int(fields[19]), fields[0] not in "ZX"
