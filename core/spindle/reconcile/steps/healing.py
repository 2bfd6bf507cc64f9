"""Everything that decides what happens to a bad disk, in one pass: lives, losses, fences, emptying, refilling.

What a step decides goes into records, waits and wants; what has to follow on the records, or come last, is handed back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from spindle.cluster import names
from spindle.cluster.refusal import Refusal, counted, some
from spindle.cluster.view import Partition
from spindle.disks import facts
from spindle.disks.lifecycle import DiskState
from spindle.disks.remedy import Remedy
from spindle.filling.shedding import SHED
from spindle.manifests.identity import Identity
from spindle.moves.journal import Journal, Shrunk
from spindle.moves.lacking import taken_over
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete, ElectUnclean, Reassign
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.slots import HUNG, Slot
from spindle.reconcile.state import State
from spindle.reconcile.steps.brokers import Records
from spindle.reconcile.steps.departing import find_departing, settle_departing
from spindle.reconcile.steps.emptying import bad, closed, settle_emptying, still_cordoned, together
from spindle.reconcile.steps.fencing import lost_brokers, settle_fences, settle_starts
from spindle.reconcile.steps.leading import settle_leaders
from spindle.reconcile.steps.leaving import settle_leaving
from spindle.reconcile.steps.lives import live_on, remedy_of
from spindle.reconcile.steps.losses import find_losses, settle_losses
from spindle.reconcile.steps.moves import Wants
from spindle.reconcile.steps.pods import SCALED_IN
from spindle.reconcile.steps.refilling import fill_new, grow_back, settle_replacements
from spindle.reconcile.steps.shrinking import find_leaving
from spindle.reconcile.steps.stalls import CHANGES
from spindle.reconcile.steps.takedown import Wanted
from spindle.reconcile.steps.watchers import tell_starved, tell_unheard
from spindle.reconcile.ward import Ward

_HEAL: Final = "HealDisks"
_ADDED: Final = "DisksAdded"
_NEED_NOT_WAIT: Final = frozenset(
    {"Fenced", "DiskBack", "DiskUnusable", "RestartWithDisk", "RestartWithoutDisk", SCALED_IN}
)


@dataclass
class Healed:
    """What comes of it.

    Attributes:
        wants: for the executor of moves.
        fences: to be carried out after the records are written.
        elections: to be carried out last.
        held: brokers that are not taken down in this pass; the next one asks again.
    """

    ward: Ward
    wants: Wants = field(default_factory=Wants)
    fences: list[Delete] = field(default_factory=list)
    elections: list[ElectUnclean | Reassign] = field(default_factory=list)
    held: frozenset[int] = frozenset()


def only_look(state: State, draft: Draft) -> Ward:
    """Disks' lives where nothing is to be done: paused, or without what has to be known."""
    ward = Ward(state, None)
    ward.losses = find_losses(ward)
    ward.departing = find_departing(ward, draft, acting=False)
    ward.leaving = find_leaving(ward, draft, acting=False)
    live_on(ward, draft, acting=False)
    return ward


def settle_healing(
    state: State,
    draft: Draft,
    records: Records,
    identity: Identity,
    wanted: dict[int, Wanted],
    journal: Journal | None,
) -> Healed:
    """Decide about every disk."""
    ward = Ward(state, journal)
    ward.losses = find_losses(ward)
    elections = settle_losses(ward, draft)
    ward.departing = find_departing(ward, draft, acting=True)
    ward.leaving = find_leaving(ward, draft, acting=True)
    fills, filled = fill_new(ward)
    live_on(ward, draft, acting=True, filled=filled)
    if any(ward.now(slot) is DiskState.FAILED for slot in ward.slots) and ward.few_at_once is not None:
        draft.wait(Wait.refused(_HEAL, f"KafkaCluster/{state.name}", ward.few_at_once))
    lost = lost_brokers(ward, draft)
    back = grow_back(ward, draft)
    wants = together(Wants(moves=back), settle_emptying(ward, draft, records, lost))
    settle_starts(ward, records, wanted)
    settle_leaving(ward, draft, records)
    fences = settle_fences(ward, draft, records)
    tell_unheard(ward, draft)
    tell_starved(ward, draft)
    settle_replacements(ward, draft, records)
    for slot in ward.slots:
        _bring_back(ward, draft, slot, wanted)
    held = settle_departing(ward, draft, records, identity, wanted)
    _name_reasons(ward, wanted)
    return Healed(
        ward,
        replace(
            together(wants, Wants(moves=fills)),
            closed=bad(ward) | closed(ward),
            bad=bad(ward),
            leads=settle_leaders(ward, draft),
        ),
        fences,
        elections,
        held=still_cordoned(ward) | held,
    )


def grow_back_first(
    journal: Journal | None, partitions: Iterable[Partition] | None, wanted: Mapping[int, Wanted]
) -> dict[int, Refusal]:
    """Who has to wait: what left its assignment comes back before anybody restarts for another reason than a disk (rule 5).

    To be asked when all are known who should go down. One that Kafka has shut out is in sync with nothing: its restart costs nobody.

    What was given up for want of room may need the very disk that a broker restarts to take up. Whom its partitions can spare rule 2 says: the
    broker that gave it up is in sync with none of them.
    """
    others = taken_over(journal, {(p.topic, p.index): p for p in partitions or ()})
    shrunk = tuple(e for e in journal.shrunk if e.key not in others) if journal is not None else ()
    dead = tuple(entry for entry in shrunk if entry.reason != SHED)
    refused = {}
    for node, why in wanted.items():
        if node >= names.FIRST_CONTROLLER_ID or why.reason in _NEED_NOT_WAIT:
            continue
        holding = dead if why.reason == _ADDED else shrunk
        if holding:
            refused[node] = _one_less(holding)
    return refused


def to_restart(wants: Wants) -> frozenset[int]:
    """Brokers that are to restart next, because replicas leave their dead disks in this very pass: nobody else goes down in it."""
    return frozenset(entry.broker for entry in wants.shrinks if not entry.reason)


def _one_less(shrunk: Sequence[Shrunk]) -> Refusal:
    named = sorted({f"{entry.topic}-{entry.partition}" for entry in shrunk})
    return Refusal(
        rule=5,
        reason="GrowBackFirst",
        message=f"{counted(len(named), 'partition')} has one replica less than it should have, because of a dead or overfull disk, or of a "
        f"corrupt segment: {some(named)}. It comes back before a broker restarts for another reason.",
        unblocked_by="The replicas are back, which happens by itself once their broker runs without the dead disk, or the full one has "
        "room.",
        objects=tuple(named),
    )


def _bring_back(ward: Ward, draft: Draft, slot: Slot, wanted: dict[int, Wanted]) -> None:
    """A disk that answers, but that Kafka has given up, comes back by a restart of its broker.

    That is no action against a disk, so rule 9 does not hold it back: where many went bad for a moment, it is how all come back.
    """
    if ward.now(slot) not in (DiskState.FAILED, DiskState.EVACUATING):
        return
    what = remedy_of(ward, slot)
    broker = objects.name(ward.state.brokers[slot.broker])
    if what is Remedy.RESTART and slot.mode == facts.ACTIVE and slot.running:
        # A disk goes before any other reason but a person's: it need not wait for what has to grow back first.
        if slot.broker not in wanted or wanted[slot.broker].reason in CHANGES:
            why = f"{slot.name} answers again, and Kafka takes it up only at its start"
            wanted[slot.broker] = Wanted("DiskBack", why)
    elif ward.now(slot) is DiskState.EVACUATING and not _tried_again(slot, what):
        return
    elif slot.mode == facts.PLACEHOLDER:
        draft.wait(_set_aside(broker, slot))
    elif what in (Remedy.WAIT, Remedy.RESTART) and slot.health.reason != HUNG:
        said = slot.health.message.rstrip(".") or "It failed"
        draft.wait(
            Wait(
                "UseDisk",
                f"KafkaBroker/{broker}/{slot.name}",
                "DiskOffline",
                f"{slot.name} of {broker}: {said}. The broker goes on with its other disks, and the partitions that were on this one "
                "with their other replicas.",
                "Nothing needs to be done: if the disk is well for half a minute its broker is restarted with it, else its replicas "
                "are made anew on other disks. A full disk needs space.",
            )
        )


def _tried_again(slot: Slot, what: Remedy) -> bool:
    """Whether a Kafka that was started while its disk was being emptied has the time to settle that each start has."""
    return what is Remedy.WAIT and slot.mode == facts.ACTIVE and slot.running


def _set_aside(broker: str, slot: Slot) -> Wait:
    return Wait(
        "UseDisk",
        f"KafkaBroker/{broker}/{slot.name}",
        "DiskSetAside",
        f"{broker} was started without {slot.name}, which could not be used. {slot.health.message}",
        "If the disk is well again, the broker is restarted with it (where no agent looks at it: stop the broker by spec.stopped and "
        "start it again); else its replicas are made anew on other disks.",
    )


def _name_reasons(ward: Ward, wanted: dict[int, Wanted]) -> None:
    """Say of a restart that changes a broker's disks that it does."""
    for broker, mine in ward.by_broker.items():
        if broker not in wanted or wanted[broker].reason != "SpecChanged":
            continue
        goes = [s.name for s in mine if s.in_pod is not None and s.mode not in (facts.ACTIVE, s.in_pod)]
        comes = [s.name for s in mine if s.in_pod != facts.ACTIVE and s.mode == facts.ACTIVE]
        if goes:
            wanted[broker] = Wanted("RestartWithoutDisk", f"it goes on without {', '.join(goes)}")
        elif comes:
            # What was added can wait for what has to grow back first; what heals can't.
            heals = any(s.name in comes and not s.added for s in mine)
            wanted[broker] = Wanted("RestartWithDisk" if heals else _ADDED, f"it takes up {', '.join(comes)}")
