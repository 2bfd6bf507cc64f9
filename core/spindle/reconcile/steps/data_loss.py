"""Last copies on bad disks: what is lost with which, what a person gave up, and what follows from that."""

from collections.abc import Collection, Mapping
from typing import Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks import facts
from spindle.disks.health import FULL, OFFLINE_FULL
from spindle.disks.lifecycle import DiskState
from spindle.healing.acceptance import Accepted, Loss, accept, lost_with, parse, render, resolve_losses
from spindle.healing.replica_index import Key, names_of
from spindle.reconcile import objects
from spindle.reconcile.actions import ElectUnclean, Patch, Reassign
from spindle.reconcile.broker_disks import BrokerDisk
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.plan_builder import PlanBuilder

ANN_ACCEPTED: Final = f"{names.GROUP}/accepted-loss"
_BAD: Final = (DiskState.FAILED, DiskState.EVACUATING)


def find_losses(inventory: DiskInventory) -> tuple[Loss, ...]:
    """What is lost at the moment with each bad disk, as far as is known."""
    found = []
    for slot in inventory.slots:
        if not inventory.replica_index.known or not (
            slot.health.bad or slot.recorded in _BAD or _offline(inventory, slot)
        ):
            continue
        keys = lost_with(inventory.replica_index, slot.broker, slot.path)
        if keys:
            found.append(Loss(slot.broker, slot.name, slot.disk["directoryId"], keys))
    return tuple(found)


def _offline(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether Kafka has given the dir up, whoever else has noticed."""
    return any(d.path == slot.path and d.error for d in inventory.replica_index.dirs(slot.broker) or ())


def reconcile_losses(inventory: DiskInventory, builder: PlanBuilder) -> list[ElectUnclean | Reassign]:
    """Read acceptances, write down which were found right, and elect what survived; says what is given up altogether.

    The elections are to come last in the pass. Where a replica that is only being made comes before the survivor, the order is changed first,
    and the next pass elects.
    """
    accepted: dict[str, Accepted] = {}
    leaderless = [key for key, p in inventory.replica_index.partitions.items() if p.leader is None]
    for broker_id, broker in inventory.state.brokers.items():
        before = parse(objects.annotation(broker, ANN_ACCEPTED))
        now: dict[str, Accepted] = {}
        for slot in inventory.by_broker.get(broker_id, ()):
            loss = next((x for x in inventory.losses if (x.broker, x.disk) == slot.key), None)
            known = before.get(slot.name)
            if loss is None and not inventory.replica_index.known and known is not None:
                now[slot.name] = known  # nobody can say whether it is over
            elif (word := _word(slot, loss, known, leaderless)) is not None:
                now[slot.name] = word
                if known is not None and known == word:
                    accepted[slot.disk["directoryId"]] = word  # on record, so it counts
            if loss is not None and slot.request.accept_loss is not None:
                _tell_unfit(inventory, builder, loss, slot.request.accept_loss, now.get(slot.name))
        if now != before:
            builder.do(
                Patch(
                    kind="KafkaBroker",
                    name=objects.name(broker),
                    uid=objects.uid(broker),
                    body={"metadata": {"annotations": {ANN_ACCEPTED: render(now) if now else None}}},
                )
            )
    verdict = resolve_losses(inventory.replica_index, inventory.losses, accepted)
    inventory.given_up = verdict.empty
    for loss, refusal in verdict.refusals:
        name = names.broker_name(inventory.state.name, loss.broker)
        builder.wait(Waiting.of("AcceptLoss", f"KafkaBroker/{name}/{loss.disk}", refusal))
    return [*_survivors_first(verdict.reorder), *_elections(verdict.elect)]


def _survivors_first(reorder: Mapping[Key, tuple[int, ...]]) -> list[Reassign]:
    if not reorder:
        return []
    named = names_of(reorder)
    return [
        Reassign(
            assignments=tuple((*key, replicas) for key, replicas in sorted(reorder.items())),
            reason="SurvivorPreferred",
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


def at_risk(inventory: DiskInventory) -> str | None:
    """The sentence for the condition DataAtRisk, with exactly the text to paste; None if nothing is lost."""
    if not inventory.losses:
        return None
    parts = []
    for loss in inventory.losses:
        named = names_of(loss.partitions)
        name = names.broker_name(inventory.state.name, loss.broker)
        back = "free space on it" if _is_full(inventory, loss) else "bring the disk back as it is"
        parts.append(
            f"The only in-sync copies of {counted(len(named), 'partition')} are on {loss.disk} of {name}, which has failed: "
            f"{some(named, 20)}. Way out: {back}; or, if it is lost for good, give them up with "
            f'spec.acceptDataLoss.disks of KafkaBroker {name}: {{"name": "{loss.disk}", "token": "{loss.text}"}}'
        )
    return " ".join(parts)


def _is_full(inventory: DiskInventory, loss: Loss) -> bool:
    """Whether the disk is there, and has no room: then it comes back by space that is freed."""
    return any(
        s.key == (loss.broker, loss.disk) and s.health.reason in (FULL, OFFLINE_FULL) for s in inventory.slots
    )


def _word(
    slot: BrokerDisk, loss: Loss | None, known: Accepted | None, leaderless: Collection[Key]
) -> Accepted | None:
    well = slot.health.well and slot.mode == facts.ACTIVE and slot.online is True
    return accept(slot.request.accept_loss, loss, known, leaderless, well=well)


def _tell_unfit(
    inventory: DiskInventory, builder: PlanBuilder, loss: Loss, request: str, word: Accepted | None
) -> None:
    """Say of an acceptance that is written why it does not count for what is lost now."""
    if request != loss.text:
        if word is None or word.done:
            builder.wait(_another_loss(inventory, loss))
    elif word is not None and word.done:
        builder.wait(_used_up(inventory, loss))


def _used_up(inventory: DiskInventory, loss: Loss) -> Waiting:
    name = names.broker_name(inventory.state.name, loss.broker)
    return Waiting(
        "AcceptLoss",
        f"KafkaBroker/{name}/{loss.disk}",
        "AcceptanceAlreadyUsed",
        f"The entry of spec.acceptDataLoss.disks for {loss.disk} of {name} was for an earlier loss of the same partitions, and does not count for this one.",
        f"Bring the disk back as it is; or, if it is lost for good, remove the entry, wait until the annotation {ANN_ACCEPTED} names {loss.disk} "
        f"no more, and write {loss.text} again.",
    )


def _another_loss(inventory: DiskInventory, loss: Loss) -> Waiting:
    name = names.broker_name(inventory.state.name, loss.broker)
    return Waiting(
        "AcceptLoss",
        f"KafkaBroker/{name}/{loss.disk}",
        "AcceptanceOutdated",
        f"The entry of spec.acceptDataLoss.disks for {loss.disk} of {name} does not name what is lost with it now.",
        f"If all of it is to be given up, write {loss.text}; else remove the entry.",
    )
