"""The run's log: one line per step with its counts and duration, as JSON or as text."""

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from spindle.api.printable import printable

_QUIET: Final = ("kafka", "py4j", "urllib3", "kubernetes")
log = logging.getLogger("spindle_rebalance")


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=True, default=str)


class _Line(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        # Names and messages are untrusted: they must not control a terminal or imitate a log line.
        return printable(super().formatMessage(record))


def set_up(*, as_json: bool, also: logging.Handler | None = None) -> None:
    """Send the log to standard error in one format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if as_json else _Line("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler, *([also] if also else [])]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)


@contextmanager
def step(cluster: str, what: str) -> Iterator[dict[str, Any]]:
    """Time a step, and log one line at its end with the counts from the dict; nothing if it fails.

    Args:
        cluster: ``namespace/cluster``.
        what: short name of the step.
    """
    counts: dict[str, Any] = {}
    began = time.perf_counter()
    yield counts
    seconds = round(time.perf_counter() - began, 3)
    said = ", ".join(f"{key} {value}" for key, value in counts.items())
    text = f"{cluster}: {what}, {seconds:.1f} s" + (f": {said}" if said else "")
    log.info(text, extra={"fields": {"cluster": cluster, "step": what, "seconds": seconds, **counts}})
