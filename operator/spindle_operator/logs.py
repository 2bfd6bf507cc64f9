"""Logs as text lines, or as JSON."""

import logging
import sys
from typing import Final

import structlog

# kopf reports each event's handler as succeeded; kafka-python reports each connection attempt. Both are noise: failures of
# either come back as errors that the operator logs. aiohttp's server logs a traceback for each malformed request.
_QUIET: Final = {
    "kopf.objects": logging.WARNING,
    "kopf": logging.WARNING,
    "kafka": logging.CRITICAL,
    "aiohttp.server": logging.CRITICAL,
}


def set_up(*, as_json: bool, level: int = logging.INFO) -> None:
    """Send all logs to standard error in one form."""
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.types.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=True)]
        if as_json
        else [_line]
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, quieter in _QUIET.items():
        logging.getLogger(name).setLevel(max(level, quieter))


def _line(_: object, __: str, event: structlog.types.EventDict) -> str:
    """``2026-01-31T12:00:00Z warning  demo/kafka: …``, with the traceback below it if there is one."""
    stamp = str(event.get("timestamp", ""))[:19]
    # Agents and tenants write many of the logged texts: none of them may imitate a log line, or control a terminal.
    message = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(event["event"]))
    text = f"{stamp}Z {event.get('level', ''):<8} {message}"
    error = event.get("exc_info")
    if error:
        text += "\n" + structlog.processors.format_exc_info(None, "", {"exc_info": error})["exception"]
    return text
