"""Conditions of an object's status, made from rows, in the form of the Kubernetes API conventions (``metav1.Condition``)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.model.times import stamp

ConditionRow = tuple[str, str, str, str]  # type, status, reason, message

LONGEST: Final = 4096  # characters of a message: a status has several, beside everything else


def as_conditions(
    rows: Iterable[ConditionRow],
    before: Mapping[str, Any],
    generation: int,
    now: float,
    longest: int = LONGEST,
) -> list[dict[str, Any]]:
    """The rows as conditions; each keeps its time while its status stays.

    Args:
        rows: in the order in which the status lists them.
        before: the object's status so far.
        generation: of the spec that the rows were determined for.
        now: seconds since the epoch.
        longest: characters to which a message is cut.
    """
    known = {condition.get("type"): condition for condition in before.get("conditions") or ()}
    result = []
    for kind, value, reason, message in rows:
        old = known.get(kind) or {}
        since = old.get("lastTransitionTime") if old.get("status") == value else None
        result.append(
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": message[:longest],
                "lastTransitionTime": since or stamp(now),
                "observedGeneration": generation,
            }
        )
    return result
