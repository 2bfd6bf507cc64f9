"""Text that nodes report, cut to a length that messages can quote.

A status field accepts 32768 characters, and a message that quotes it adds some. The API server rejects a status with one field that is too
long, so a single node could keep the status of its whole cluster from being written.
"""

from collections.abc import Mapping
from typing import Any, Final

LONGEST: Final = 1024  # characters; the longest sentence of Spindle's own agent is shorter


def clipped(text: str, longest: int = LONGEST) -> str:
    """The text, cut to at most ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def clipped_report(broker: Mapping[str, Any]) -> Mapping[str, Any]:
    """A KafkaBroker with every text in ``status.observed`` cut; the same object if none is too long."""
    status = broker.get("status") or {}
    observed = status.get("observed")
    if not observed or not _too_long(observed):
        return broker
    return {**broker, "status": {**status, "observed": _cut(observed)}}


def _too_long(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > LONGEST
    if isinstance(value, Mapping):
        return any(map(_too_long, value.values()))
    return isinstance(value, list | tuple) and any(map(_too_long, value))


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return clipped(value)
    if isinstance(value, Mapping):
        return {key: _cut(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(each) for each in value]
    return value
