"""Which dynamic configs Spindle has set: recorded on a Kubernetes object before they are set (every changed setting can be restored, docs/safety.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.api import names
from spindle.model import objects
from spindle.model.snapshot import SnapshotObject
from spindle.model.times import seconds, stamp

ANN_DYNAMIC_CONFIG: Final = f"{names.GROUP}/tuned"


@dataclass(frozen=True)
class DynamicConfigRecord:
    """The annotation ``spindle.dev/tuned``, as JSON.

    Attributes:
        settings: key → target value.
        before: Spindle's previous value, kept until the new value was observed.
        since: when the record was written, in seconds since the epoch.
        again: settings that were not applied in time and were sent again: key → the value sent, which may be an intermediate one.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    since: float | None = None
    again: Mapping[str, str] = field(default_factory=dict)

    def same(self, other: "DynamicConfigRecord") -> bool:
        """Whether both have the same content, regardless of when they were written."""
        mine, others = ((dict(r.settings), dict(r.before), dict(r.again)) for r in (self, other))
        return mine == others


def read_record(obj: SnapshotObject) -> DynamicConfigRecord:
    """Settings that an object records as Spindle's; none if the record cannot be read, so that no user's setting is mistaken for Spindle's."""
    try:
        record: Any = json.loads(objects.annotation(obj, ANN_DYNAMIC_CONFIG) or "{}")
        return DynamicConfigRecord(
            _texts(record, "settings"),
            _texts(record, "before"),
            seconds(record.get("since")),
            _texts(record, "again"),
        )
    except (ValueError, AttributeError, TypeError):
        return DynamicConfigRecord()


def record_text(record: DynamicConfigRecord, now: float) -> str | None:
    """The annotation's text; None if no setting is Spindle's any more."""
    if not record.settings:
        return None
    text: dict[str, Any] = {"settings": dict(record.settings), "since": stamp(now)}
    if record.before:
        text["before"] = dict(record.before)
    if record.again:
        text["again"] = dict(record.again)
    return json.dumps(text, sort_keys=True)


def _texts(record: Any, part: str) -> dict[str, str]:
    return {str(k): str(v) for k, v in record.get(part, {}).items()}
