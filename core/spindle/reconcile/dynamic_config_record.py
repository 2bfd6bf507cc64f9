"""What of Kafka's dynamic settings is ours: noted on an object of Kubernetes before it is set (rule 10)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.cluster import names
from spindle.reconcile import objects
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.times import seconds, stamp

ANN_DYNAMIC_CONFIG: Final = f"{names.GROUP}/tuned"


@dataclass(frozen=True)
class DynamicConfigRecord:
    """The annotation ``spindle.dev/tuned``, as JSON.

    Attributes:
        settings: key → what it is to be in the end.
        before: what stood there of ours when that was written down, for as long as the new value was not seen.
        since: seconds since the epoch; when that was written down.
        again: what was not taken in time and was told once more: key → the value told, which may be a step on the way to the last one.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    since: float | None = None
    again: Mapping[str, str] = field(default_factory=dict)

    def same(self, other: "DynamicConfigRecord") -> bool:
        """Whether both say the same, whenever they were written."""
        mine, others = ((dict(r.settings), dict(r.before), dict(r.again)) for r in (self, other))
        return mine == others


def read_record(obj: SnapshotObject) -> DynamicConfigRecord:
    """What is ours by an object's record; nothing where that cannot be read, so that nothing is taken for ours."""
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
    """The annotation's text; None where nothing is ours any more."""
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
