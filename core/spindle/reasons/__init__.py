"""All reasons that Spindle reports, in the order of the reference page (``docs/reference/reasons.md``)."""

from spindle.reasons import changes, controllers, disks, moves, pods, racks, rebalance, restarts, thresholds
from spindle.reasons.reason import Alert, Reason, Section

__all__ = ["SECTIONS", "Alert", "Reason", "Section", "find"]

SECTIONS: tuple[Section, ...] = (
    *racks.SECTIONS,
    *pods.SECTIONS,
    *disks.SECTIONS,
    *changes.SECTIONS,
    *thresholds.SECTIONS,
    *moves.SECTIONS,
    *restarts.SECTIONS,
    *controllers.SECTIONS,
    *rebalance.SECTIONS,
)


def find(name: str) -> Reason | None:
    """The reason of that name, in whatever case it is written."""
    wanted = name.lower()
    return next((r for s in SECTIONS for r in s.reasons if r.name.lower() == wanted), None)
