"""Last copies on bad disks: what is lost with which, what a person gave up, and what follows from that."""

from collections.abc import Collection, Mapping
from typing import Final

from spindle.cluster import names
from spindle.cluster.refusal import counted, some
from spindle.disks import facts
from spindle.disks.health import FULL, OFFLINE_FULL
from spindle.disks.lifecycle import DiskState
from spindle.healing.acceptance import Accepted, Loss, accept, lost_with, parse, render, settle
from spindle.healing.standing import Key, names_of
from spindle.reconcile import objects
from spindle.reconcile.actions import ElectUnclean, Patch, Reassign
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.slots import Slot
from spindle.reconcile.ward import Ward

ANN_ACCEPTED: Final = f"{names.GROUP}/accepted-loss"
_BAD: Final = (DiskState.FAILED, DiskState.EVACUATING)


def find_losses(ward: Ward) -> tuple[Loss, ...]:
    """What is lost at the moment with each bad disk, as far as is known."""
    found = []
    for slot in ward.slots:
        if not ward.looked.known or not (slot.health.bad or slot.recorded in _BAD or _offline(ward, slot)):
            continue
        keys = lost_with(ward.looked, slot.broker, slot.path)
        if keys:
            found.append(Loss(slot.broker, slot.name, slot.disk["directoryId"], keys))
    return tuple(found)


def _offline(ward: Ward, slot: Slot) -> bool:
    """Whether Kafka has given the dir up, whoever else has noticed."""
    return any(d.path == slot.path and d.error for d in ward.looked.dirs(slot.broker) or ())


def settle_losses(ward: Ward, draft: Draft) -> list[ElectUnclean | Reassign]:
    """Read acceptances, write down which were found right, and elect what survived; says what is given up altogether.

    The elections are to come last in the pass. Where a replica that is only being made comes before the survivor, the order is changed first,
    and the next pass elects.
    """
    accepted: dict[str, Accepted] = {}
    leaderless = [key for key, p in ward.looked.partitions.items() if p.leader is None]
    for broker_id, broker in ward.state.brokers.items():
        before = parse(objects.annotation(broker, ANN_ACCEPTED))
        now: dict[str, Accepted] = {}
        for slot in ward.by_broker.get(broker_id, ()):
            loss = next((x for x in ward.losses if (x.broker, x.disk) == slot.key), None)
            known = before.get(slot.name)
            if loss is None and not ward.looked.known and known is not None:
                now[slot.name] = known  # nobody can say whether it is over
            elif (word := _word(slot, loss, known, leaderless)) is not None:
                now[slot.name] = word
                if known is not None and known == word:
                    accepted[slot.disk["directoryId"]] = word  # on record, so it counts
            if loss is not None and slot.wish.accept_loss is not None:
                _tell_unfit(ward, draft, loss, slot.wish.accept_loss, now.get(slot.name))
        if now != before:
            draft.do(
                Patch(
                    kind="KafkaBroker",
                    name=objects.name(broker),
                    uid=objects.uid(broker),
                    body={"metadata": {"annotations": {ANN_ACCEPTED: render(now) if now else None}}},
                )
            )
    verdict = settle(ward.looked, ward.losses, accepted)
    ward.given_up = verdict.empty
    for loss, refusal in verdict.refusals:
        name = names.broker_name(ward.state.name, loss.broker)
        draft.wait(Wait.refused("AcceptLoss", f"KafkaBroker/{name}/{loss.disk}", refusal))
    return [*_survivors_first(verdict.reorder), *_elections(verdict.elect)]


def _survivors_first(reorder: Mapping[Key, tuple[int, ...]]) -> list[Reassign]:
    if not reorder:
        return []
    named = names_of(reorder)
    return [
        Reassign(
            assignments=tuple((*key, replicas) for key, replicas in sorted(reorder.items())),
            reason="SurvivorFirst",
            message=f"Of {counted(len(named), 'partition')} the copy that survived is put before the one that is being made, for Kafka "
            f"elects the first that it can: {some(named)}.",
        )
    ]


def _elections(elect: Collection[Key]) -> list[ElectUnclean]:
    if not elect:
        return []
    named = names_of(elect)
    return [
        ElectUnclean(
            partitions=tuple(sorted(elect)),
            reason="SurvivorElected",
            message=f"The loss of the last in-sync copy of {counted(len(named), 'partition')} is accepted; a copy that survived is "
            f"made leader: {some(named)}.",
        )
    ]


def at_risk(ward: Ward) -> str | None:
    """The sentence for the condition DataAtRisk, with exactly the text to paste; None if nothing is lost."""
    if not ward.losses:
        return None
    parts = []
    for loss in ward.losses:
        named = names_of(loss.partitions)
        name = names.broker_name(ward.state.name, loss.broker)
        back = "free space on it" if _is_full(ward, loss) else "bring the disk back as it is"
        parts.append(
            f"The only in-sync copies of {counted(len(named), 'partition')} are on {loss.disk} of {name}, which has failed: "
            f"{some(named, 20)}. Way out: {back}; or, if it is lost for good, give them up with "
            f'spec.wishes of KafkaBroker {name}: {{"disk": "{loss.disk}", "acceptLoss": "{loss.text}"}}'
        )
    return " ".join(parts)


def _is_full(ward: Ward, loss: Loss) -> bool:
    """Whether the disk is there, and has no room: then it comes back by space that is freed."""
    return any(
        s.key == (loss.broker, loss.disk) and s.health.reason in (FULL, OFFLINE_FULL) for s in ward.slots
    )


def _word(
    slot: Slot, loss: Loss | None, known: Accepted | None, leaderless: Collection[Key]
) -> Accepted | None:
    well = slot.health.well and slot.mode == facts.ACTIVE and slot.online is True
    return accept(slot.wish.accept_loss, loss, known, leaderless, well=well)


def _tell_unfit(ward: Ward, draft: Draft, loss: Loss, wish: str, word: Accepted | None) -> None:
    """Say of an acceptance that is written why it does not count for what is lost now."""
    if wish != loss.text:
        if word is None or word.done:
            draft.wait(_another_loss(ward, loss))
    elif word is not None and word.done:
        draft.wait(_used_up(ward, loss))


def _used_up(ward: Ward, loss: Loss) -> Wait:
    name = names.broker_name(ward.state.name, loss.broker)
    return Wait(
        "AcceptLoss",
        f"KafkaBroker/{name}/{loss.disk}",
        "AcceptanceUsedUp",
        f"The acceptLoss that is written for {loss.disk} of {name} was for an earlier loss of the same partitions, and does not count for this one.",
        f"Bring the disk back as it is; or, if it is lost for good, take the wish back, wait until the annotation {ANN_ACCEPTED} names {loss.disk} "
        f"no more, and write {loss.text} again.",
    )


def _another_loss(ward: Ward, loss: Loss) -> Wait:
    name = names.broker_name(ward.state.name, loss.broker)
    return Wait(
        "AcceptLoss",
        f"KafkaBroker/{name}/{loss.disk}",
        "AcceptanceOfAnotherLoss",
        f"The acceptLoss that is written for {loss.disk} of {name} does not name what is lost with it now.",
        f"If all of it is to be given up, write {loss.text}; else take the wish back.",
    )
