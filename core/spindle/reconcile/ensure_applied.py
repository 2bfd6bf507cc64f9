"""Objects that are kept as they should be: made, brought up to date, and put right where somebody else changed them."""

from spindle.cluster import names
from spindle.manifests.common import drifted, with_applied
from spindle.reconcile import objects
from spindle.reconcile.actions import Apply
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject


def ensure_applied(builder: PlanBuilder, made: SnapshotObject, live: SnapshotObject | None) -> None:
    """Apply an object unless it says already what it should.

    Args:
        builder: of this pass.
        made: as it should be.
        live: as it is; None if it is not there.
    """
    wanted = with_applied(made)
    if live is None:
        builder.do(Apply(object=wanted))  # makes it, and leaves alone what somebody else has under that name
        return
    if not drifted(wanted, live):
        return
    if objects.annotation(live, names.ANN_APPLIED) != objects.annotation(wanted, names.ANN_APPLIED):
        builder.do(Apply(object=wanted, seen=live))  # what is wanted changed; whatever changed it has told so
        return
    what = f"{wanted['kind']} {objects.name(wanted)} was changed by somebody else and was put right."
    builder.do(Apply(object=wanted, seen=live, reason="Restored", message=what))
