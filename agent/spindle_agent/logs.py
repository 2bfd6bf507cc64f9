"""Logging as text lines or as JSON. Standard library only, to save memory on every node."""

import json
import logging
import sys
from datetime import UTC, datetime


def set_up(*, as_json: bool, level: int = logging.INFO) -> None:
    """Send all logs to standard error in one format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if as_json else _Line())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Kafka errors are raised and logged by the agent.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    # aiohttp's server logs a traceback for each malformed request.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # Messages contain untrusted text, above all from disks, which must not imitate a log line.
        message = "".join(c if c.isprintable() else repr(c)[1:-1] for c in record.getMessage())
        text = f"{_stamp(record)}Z {record.levelname.lower():<8} {message}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document = {
            "timestamp": f"{_stamp(record)}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=True)


def _stamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds")[:19]
