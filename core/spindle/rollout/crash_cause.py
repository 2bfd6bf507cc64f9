"""Why a container exited: the line of its termination message that names the cause, not the end of a stack trace."""

import re
from typing import Final

from spindle.api import names
from spindle.model import objects
from spindle.model.snapshot import SnapshotObject

_LONGEST: Final = 600  # characters of a cause
_ERROR: Final = re.compile(r"\b(?:FATAL|ERROR)\b")
_EXCEPTION: Final = re.compile(
    r"^(?:Exception in thread .*|(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b.*)"
)
_FRAME: Final = re.compile(r"^\s+(?:at |\.\.\. \d+ more)")


def crash_cause(pod: SnapshotObject, container: str) -> str:
    """The cause by which a container last exited; its exit code where it left no message."""
    ended = objects.terminated(pod, container) or {}
    message = str(ended.get("message") or "").strip()
    if not message:
        return f"exit code {ended.get('exitCode', 'unknown')}"
    # Inspect and preflight write whole sentences; Kafka's message is the end of its log.
    return cause_in_log(message) if container == names.CONTAINER_KAFKA else message


def cause_in_log(text: str) -> str:
    """The first line of a Kafka log that names an error, with the exception that follows it; else the last line that is no stack frame."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    for i, line in enumerate(lines):
        if _ERROR.search(line) or _EXCEPTION.match(line):
            following = lines[i + 1] if i + 1 < len(lines) else ""
            more = f" {following.strip()}" if _EXCEPTION.match(following) else ""
            return f"{line.strip()}{more}"[:_LONGEST]
    return (lines[-1].strip() if lines else text.strip())[-_LONGEST:]
