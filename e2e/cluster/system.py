"""Runs programs of the system for the testbed."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster.debian import which


class CommandError(RuntimeError):
    """A command failed; contains its output."""

    def __init__(self, command: Sequence[str], code: int, output: str) -> None:
        super().__init__(f"{' '.join(command)}: ended with {code}: {output.strip()[-2000:]}")
        self.code, self.output = code, output


def run(*command: str | Path, stdin: str | None = None, seconds: float = 60) -> str:
    """Run a program to its end and return its output.

    Raises:
        CommandError: it failed, or took longer than ``seconds``.
    """
    arguments = [str(part) for part in command]
    arguments[0] = which(arguments[0]) or arguments[0]
    # It dies with this process, so that it does not interfere with a later cleanup.
    arguments = ["setpriv", "--pdeathsig", "KILL", "--", *arguments]
    pipe = subprocess.PIPE
    source = subprocess.DEVNULL if stdin is None else pipe
    process = subprocess.Popen(arguments, stdin=source, stdout=pipe, stderr=pipe, text=True)
    try:
        output, errors = process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        process.kill()  # not awaited: a process that waits for a hung disk ends only when the disk answers
        raise CommandError(arguments[4:], -1, f"not done after {seconds:g} s") from late
    if process.returncode != 0:
        raise CommandError(arguments[4:], process.returncode, errors or output)
    return output


def in_netns(netns: str, *command: str | Path) -> list[str]:
    """The command line that runs a command in a network namespace and changes nothing else.

    ``ip netns exec`` would also remount /sys, and so hide the control groups.
    """
    return ["nsenter", f"--net=/run/netns/{netns}", "--", *(str(part) for part in command)]
