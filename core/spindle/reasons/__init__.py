"""All reasons that Spindle reports, in the order of the reference page (``docs/reference/reasons.md``)."""

from collections.abc import Iterator
from typing import Final

from spindle.reasons import (
    actions,
    changes,
    conditions,
    controllers,
    disks,
    moves,
    pods,
    racks,
    rebalance,
    restarts,
    security,
    thresholds,
    topics,
)
from spindle.reasons.disk_states import DISK_STATES
from spindle.reasons.disk_states import PAGE as DISK_STATES_PAGE
from spindle.reasons.reason import Alert, Reason, Section

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("reason",)

__all__ = ["DISK_STATES", "SECTIONS", "Alert", "Reason", "Section", "all_reasons", "find", "page_of"]

SECTIONS: tuple[Section, ...] = (
    *conditions.SECTIONS,
    *racks.SECTIONS,
    *pods.SECTIONS,
    *disks.SECTIONS,
    *changes.SECTIONS,
    *thresholds.SECTIONS,
    *moves.SECTIONS,
    *restarts.SECTIONS,
    *controllers.SECTIONS,
    *security.SECTIONS,
    *topics.SECTIONS,
    *rebalance.SECTIONS,
    *actions.SECTIONS,
)


def all_reasons() -> Iterator[Reason]:
    """Those of all sections, then those that the page on disk states lists."""
    for section in (*SECTIONS, DISK_STATES):
        yield from section.reasons


def find(name: str) -> Reason | None:
    """The reason of that name, in upper or lower case."""
    wanted = name.lower()
    return next((reason for reason in all_reasons() if reason.name.lower() == wanted), None)


def page_of(reason: Reason) -> str:
    """Where the manual has it, as a path from ``docs`` with an anchor."""
    if reason in DISK_STATES.reasons:
        return f"reference/{DISK_STATES_PAGE}"
    return f"reference/reasons.md#{reason.name.lower()}"
