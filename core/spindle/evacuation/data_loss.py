"""Last replicas on failed disks: what is lost with each disk, which loss the user accepted, and which elections follow."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.disks.acceptance import (
    ANN_ACCEPTED,
    Accepted,
    Loss,
    accept,
    lost_with,
    parse,
    render,
    resolve_losses,
)
from spindle.disks.broker_disks import BrokerDisk
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.health import FULL, OFFLINE_FULL
from spindle.model import disk_facts, objects
from spindle.model.actions import ElectUnclean, Patch, Reassign
from spindle.model.condition_rows import LONGEST, ConditionRow
from spindle.model.given_consent import loss_entry
from spindle.model.plan_builder import PlanBuilder
from spindle.model.replica_index import Key, names_of
from spindle.model.waiting import Waiting, counted, some

AT_RISK: Final = "DataAtRisk"
LAST_REPLICA: Final = "LastReplicaAtRisk"
MOST_TEXT: Final = 32_000  # characters about the disks of one broker, as its schema takes; all 64 have room
# Characters of the partitions' names in the text about one loss: as many as leave room for all tokens.
_NAMES: Final = (500, 100, 0)
_SHORTEST: Final = 300  # characters about one disk, at least
_BAD: Final = (DiskState.FAILED, DiskState.EVACUATING)


def find_losses(inventory: DiskInventory) -> tuple[Loss, ...]:
    """The partitions that are lost with each failed disk now, as far as is known."""
    if not inventory.replica_index.known:
        return ()
    found = []
    offline = {
        (broker, each.path)
        for broker in inventory.by_broker
        for each in inventory.replica_index.dirs(broker) or ()
        if each.error
    }
    for slot in inventory.slots:
        # Kafka may have taken a log dir offline before any probe finds an error.
        if not (slot.health.bad or slot.recorded in _BAD or (slot.broker, slot.path) in offline):
            continue
        keys = lost_with(inventory.replica_index, slot.broker, slot.path)
        if keys:
            found.append(Loss(slot.broker, slot.name, slot.disk["directoryId"], keys))
    return tuple(found)


def reconcile_losses(
    inventory: DiskInventory, builder: PlanBuilder
) -> tuple[frozenset[tuple[int, Key]], list[ElectUnclean | Reassign]]:
    """Check the acceptances, record the valid ones, and elect surviving replicas.

    If a replica that is still being added precedes the survivor in the assignment, the assignment is reordered first and the next pass elects.

    Returns:
        (broker, partition) whose loss is accepted and of which no replica survives; the elections, which must come last in the pass.
    """
    accepted: dict[str, Accepted] = {}
    leaderless = [(p.topic, p.index) for p in inventory.replica_index.unsettled if p.leader is None]
    lost = {(loss.broker, loss.disk): loss for loss in inventory.losses}
    for broker_id, broker in inventory.state.brokers.items():
        before = parse(objects.annotation(broker, ANN_ACCEPTED))
        now: dict[str, Accepted] = {}
        for slot in inventory.by_broker.get(broker_id, ()):
            loss, known = lost.get(slot.key), before.get(slot.name)
            if loss is None and not inventory.replica_index.known and known is not None:
                now[slot.name] = known  # Kafka cannot be asked whether the loss is resolved
            elif (entry := _acceptance(slot, loss, known, leaderless)) is not None:
                now[slot.name] = entry
                if known is not None and known == entry:
                    accepted[slot.disk["directoryId"]] = entry  # counts only once it is recorded
            if loss is not None and slot.request.accept_loss is not None:
                _report_unfit(inventory, builder, loss, slot.request.accept_loss, now.get(slot.name))
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
    for loss, refusal in verdict.refusals:
        name = names.broker_name(inventory.state.name, loss.broker)
        builder.wait(Waiting.of("AcceptLoss", f"KafkaBroker/{name}/{loss.disk}", refusal))
    return verdict.empty, [*_survivors_first(verdict.reorder), *_elections(verdict.elect)]


def _survivors_first(reorder: Mapping[Key, tuple[int, ...]]) -> list[Reassign]:
    if not reorder:
        return []
    named = names_of(reorder)
    return [
        Reassign(
            assignments=tuple((*key, replicas) for key, replicas in sorted(reorder.items())),
            reason="SurvivorPreferred",
            message=f"Moved the surviving replica with the most data of {counted(len(named), 'partition')} to the front of the assignment, because "
            f"Kafka elects the first eligible replica: {some(named)}.",
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
            message=f"Electing a surviving replica as leader of {counted(len(named), 'partition')} (unclean), because the loss of the last "
            f"in-sync replica is accepted: {some(named)}.",
        )
    ]


def at_risk(inventory: DiskInventory) -> str | None:
    """The message of the condition DataAtRisk, with the exact acceptances to paste; None if nothing is lost.

    Losses that are not accepted yet come first, as many as fit.
    """
    return _message(inventory, inventory.losses, LONGEST) if inventory.losses else None


def broker_risks(inventory: DiskInventory) -> dict[int, ConditionRow]:
    """The condition DataAtRisk of each broker with such disks: the one of the KafkaCluster has no room for the tokens of many disks."""
    found: dict[int, list[Loss]] = {}
    for loss in inventory.losses:
        found.setdefault(loss.broker, []).append(loss)
    return {
        broker: (AT_RISK, "True", LAST_REPLICA, _message(inventory, losses, MOST_TEXT))
        for broker, losses in found.items()
    }


def _message(inventory: DiskInventory, losses: Sequence[Loss], longest: int) -> str:
    """The losses, those that are accepted only by their disks."""
    brokers = inventory.state.brokers
    accepted = {
        (broker, disk): entry
        for broker in {loss.broker for loss in losses} & brokers.keys()
        for disk, entry in parse(objects.annotation(brokers[broker], ANN_ACCEPTED)).items()
    }
    open_, given = [], []
    for loss in losses:
        known = accepted.get((loss.broker, loss.disk))
        if known is not None and not known.done and known.text == loss.text:
            given.append(f"{loss.disk} of {names.broker_name(inventory.state.name, loss.broker)}")
        else:
            open_.append(loss)
    said = [f"The loss of the only in-sync replicas on {some(given)} is accepted."] if given else []
    return " ".join([*_open_losses(inventory, open_, longest - sum(map(len, said)) - 1), *said])


def _open_losses(inventory: DiskInventory, losses: Sequence[Loss], longest: int) -> list[str]:
    """Each loss with its whole token: rather fewer partitions are named, and at last fewer disks."""
    parts: list[str] = []
    many = len(losses) * _SHORTEST > longest
    for letters in _NAMES[-1:] if many else _NAMES:
        parts = [_loss(inventory, loss, letters) for loss in losses[: longest // _SHORTEST]]
        if not many and len(" ".join(parts)) <= longest:
            return parts
    more = (
        "The losses of {} are listed here when these are resolved or accepted; the condition DataAtRisk of their KafkaBrokers "
        "names them now."
    )
    room, kept = longest - len(more.format(counted(len(losses), "more disk"))), list[str]()
    for part in parts:
        room -= len(part) + 1
        if room < 0:
            break
        kept.append(part)
    return [*kept, more.format(counted(len(losses) - len(kept), "more disk"))]


def _loss(inventory: DiskInventory, loss: Loss, letters: int) -> str:
    named = names_of(loss.partitions)
    name = names.broker_name(inventory.state.name, loss.broker)
    back = "free space on the disk" if _is_full(inventory, loss) else "bring the disk back with its data"
    copies = "replica" if len(named) == 1 else "replicas"
    shown = max((n for n in range(1, 21) if sum(map(len, named[:n])) <= letters), default=1)
    which = f": {some(named, shown)}" if letters else ""
    return (
        f"The only in-sync {copies} of {counted(len(named), 'partition')} {'is' if len(named) == 1 else 'are'} on {loss.disk} of {name}, "
        f"which has failed{which}. To resolve: {back}; or, if it is permanently lost, "
        f"{loss_entry(name, loss.disk, loss.text)}"
    )


def _is_full(inventory: DiskInventory, loss: Loss) -> bool:
    """Whether the disk failed only because it is full: then freeing space brings it back."""
    return any(
        s.key == (loss.broker, loss.disk) and s.health.reason in (FULL, OFFLINE_FULL) for s in inventory.slots
    )


def _acceptance(
    slot: BrokerDisk, loss: Loss | None, known: Accepted | None, leaderless: Collection[Key]
) -> Accepted | None:
    healthy = slot.health.well and slot.mode == disk_facts.ACTIVE and slot.online is True
    return accept(slot.request.accept_loss, loss, known, leaderless, well=healthy)


def _report_unfit(
    inventory: DiskInventory, builder: PlanBuilder, loss: Loss, request: str, entry: Accepted | None
) -> None:
    """Report why an acceptance in the spec does not apply to the current loss."""
    if request != loss.text:
        if entry is None or entry.done:
            builder.wait(_another_loss(inventory, loss))
    elif entry is not None and entry.done:
        builder.wait(_used_up(inventory, loss))


def _used_up(inventory: DiskInventory, loss: Loss) -> Waiting:
    name = names.broker_name(inventory.state.name, loss.broker)
    return Waiting(
        "AcceptLoss",
        f"KafkaBroker/{name}/{loss.disk}",
        "AcceptanceAlreadyUsed",
        f"The entry of spec.acceptDataLoss.disks for {loss.disk} of {name} accepted an earlier loss of the same partitions and does not apply "
        "to this one.",
        f"Bring the disk back with its data. Or, if it is permanently lost: remove the entry, wait until the annotation {ANN_ACCEPTED} no longer "
        f"names {loss.disk}, and write {loss.text} again.",
    )


def _another_loss(inventory: DiskInventory, loss: Loss) -> Waiting:
    name = names.broker_name(inventory.state.name, loss.broker)
    return Waiting(
        "AcceptLoss",
        f"KafkaBroker/{name}/{loss.disk}",
        "AcceptanceOutdated",
        f"The entry of spec.acceptDataLoss.disks for {loss.disk} of {name} does not match the partitions that are lost with the disk now.",
        f"To accept the loss of all of them, write {loss.text} as the token; else remove the entry.",
    )
