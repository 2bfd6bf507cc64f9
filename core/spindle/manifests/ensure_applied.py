"""Objects that Spindle creates, keeps up to date, and restores if another client changed them."""

from spindle.api import names
from spindle.manifests.common import drifted, with_applied
from spindle.model import objects
from spindle.model.actions import Apply
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject


def ensure_applied(builder: PlanBuilder, made: SnapshotObject, live: SnapshotObject | None) -> None:
    """Apply an object unless it has the desired content already.

    Args:
        builder: of this pass.
        made: the desired object.
        live: the present object; None if it does not exist.
    """
    wanted = with_applied(made)
    if live is None:
        builder.do(
            Apply(object=wanted)
        )  # creates it, and does not change another owner's object with that name
        return
    if not drifted(wanted, live):
        return
    if objects.annotation(live, names.ANN_APPLIED) != objects.annotation(wanted, names.ANN_APPLIED):
        builder.do(
            Apply(object=wanted, seen=live)
        )  # the desired content changed; the change itself was reported
        return
    what = f"{wanted['kind']} {objects.name(wanted)} was changed by another client; Spindle restored it."
    builder.do(Apply(object=wanted, seen=live, reason="Restored", message=what))
