"""Logs as text lines, or as JSON. Standard library only, to save memory on every node."""

import json
import logging
import secrets
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

# Names of levels, for options; the lowest first.
LEVELS: Final = ("debug", "info", "warning", "error")

# The pass that the current task, or a call in a thread with a copy of its context, belongs to.
_current_pass: ContextVar[str] = ContextVar("pass", default="")


def begin_pass() -> None:
    """Give all further lines of this task a new pass id, by which the lines of one pass are found among those of others."""
    _current_pass.set(secrets.token_hex(4))


def set_up(
    *, as_json: bool, quiet: Mapping[str, int], also: logging.Handler | None = None, level: str = "info"
) -> None:
    """Send all logs to standard error in one format.

    Args:
        as_json: one JSON document per line, with the record's ``fields`` if it has any.
        quiet: logger of a library → its lowest level.
        also: a further handler.
        level: one of `LEVELS`; lines below it are not written.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if as_json else _Line())
    root = logging.getLogger()
    root.handlers[:] = [handler, *([also] if also else [])]
    root.setLevel(level.upper())
    for name, lowest in quiet.items():
        logging.getLogger(name).setLevel(lowest)


class _Line(logging.Formatter):
    """``2026-01-31T12:00:00Z warning  demo/kafka: …``, with the traceback below it if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        # Agents, tenants and disks write many of the logged texts: none of them may imitate a log line, or control a terminal.
        message = "".join(c if c.isprintable() else repr(c)[1:-1] for c in record.getMessage())
        during = f"[{_current_pass.get()}] " if _current_pass.get() else ""
        text = f"{_stamp(record, 'seconds')} {record.levelname.lower():<8} {during}{message}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "timestamp": _stamp(record, "milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **({"pass": _current_pass.get()} if _current_pass.get() else {}),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=True, default=str)


def _stamp(record: logging.LogRecord, precision: str) -> str:
    return (
        f"{datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None).isoformat(timespec=precision)}Z"
    )
