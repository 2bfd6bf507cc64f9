"""The few ways in which the testbed runs programs of the system."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster.debian import which


class CommandError(RuntimeError):
    """A command failed; carries what it printed."""

    def __init__(self, command: Sequence[str], code: int, output: str) -> None:
        super().__init__(f"{' '.join(command)}: ended with {code}: {output.strip()[-2000:]}")
        self.code, self.output = code, output


def run(*command: str | Path, stdin: str | None = None, seconds: float = 60) -> str:
    """Run a program to its end and return what it printed.

    Raises:
        CommandError: it failed, or took longer than that.
    """
    arguments = [str(part) for part in command]
    arguments[0] = which(arguments[0]) or arguments[0]
    # It dies with us: whoever clears up after us must not find it still at work.
    arguments = ["setpriv", "--pdeathsig", "KILL", "--", *arguments]
    pipe = subprocess.PIPE
    source = subprocess.DEVNULL if stdin is None else pipe
    process = subprocess.Popen(arguments, stdin=source, stdout=pipe, stderr=pipe, text=True)
    try:
        output, errors = process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        process.kill()  # and not waited for: what a hung disk holds dies when the disk answers
        raise CommandError(arguments[4:], -1, f"not done after {seconds:g} s") from late
    if process.returncode != 0:
        raise CommandError(arguments[4:], process.returncode, errors or output)
    return output


def in_netns(netns: str, *command: str | Path) -> list[str]:
    """The command line that runs a command in a network namespace and changes nothing else.

    ``ip netns exec`` would also remount /sys, and so hide the control groups.
    """
    return ["nsenter", f"--net=/run/netns/{netns}", "--", *(str(part) for part in command)]
