"""Leadership is moved off disks that serve, but badly, and comes back when they are well."""

from collections.abc import Mapping
from typing import Final

from spindle.cluster import names
from spindle.disks import facts, flock
from spindle.disks.findings import BY_KAFKA
from spindle.disks.lifecycle import DiskState
from spindle.disks.signals import DiskVerdict
from spindle.healing.lead import lead_elsewhere
from spindle.healing.standing import Key
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.slots import HUNG, Slot
from spindle.reconcile.steps.takedown import down
from spindle.reconcile.ward import Ward

SUSPECT_FOR: Final = 60.0  # seconds for which a disk must be suspect
_DOUBTFUL: Final = (DiskVerdict.SLOW, DiskVerdict.SUSPECT)
# Of these a leader is no better off elsewhere: its followers write as much.
_NO_MATTER: Final = frozenset({"Full", "NotPermitted", *BY_KAFKA})


def settle_leaders(ward: Ward, draft: Draft) -> Mapping[Key, int | None]:
    """Who is to lead what stands on disks that are not well, for the executor."""
    unwell = [slot for slot in ward.slots if _unwell(ward, slot)]
    if not unwell or ward.journal is None:
        return {}
    disks = ward.state.spec.disks
    sick = {slot.key: slot.health.since for slot in unwell if slot.health.verdict in _DOUBTFUL}
    refusal = flock.may_act(
        {**ward.bad_since, **sick}, len(ward.slots), ward.state.now, disks.automatic_share / 100
    )
    if refusal is not None:
        wished = [slot for slot in unwell if slot.wish.drained]
        if len(wished) < len(unwell):
            draft.wait(Wait.refused("MoveLeaders", f"KafkaCluster/{ward.state.name}", refusal))
        # What stands as it is: putting back is no less an action than moving.
        keep = dict.fromkeys(key for slot in unwell for key in ward.looked.on(slot.broker, slot.path) or ())
        return {**keep, **_lead(ward, wished)}
    return _lead(ward, unwell)


def _lead(ward: Ward, unwell: list[Slot]) -> Mapping[Key, int | None]:
    away = {node for node in down(ward.state) if node < names.FIRST_CONTROLLER_ID}
    sick = {
        slot.broker
        for slot in ward.slots
        if slot.mode != facts.ABSENT and (slot.health.bad or slot.health.verdict in _DOUBTFUL)
    }
    leaving = {slot.broker for slot in ward.within(DiskState.DRAINING)}
    return lead_elsewhere(
        ward.looked, [(slot.broker, slot.path) for slot in unwell], frozenset(away | sick | leaving)
    )


def _unwell(ward: Ward, slot: Slot) -> bool:
    """Whether a disk serves, and is to lead nothing. A hung one is left to the one who stops its broker."""
    health = slot.health
    if slot.mode != facts.ACTIVE or not slot.online or not health.fresh:
        return False
    if ward.now(slot) is DiskState.DRAINING or health.verdict == DiskVerdict.SLOW:
        return True
    if health.verdict == DiskVerdict.SUSPECT:
        return health.reason not in _NO_MATTER and ward.state.now - health.since >= SUSPECT_FOR
    return health.bad and health.reason != HUNG and health.reason not in BY_KAFKA
