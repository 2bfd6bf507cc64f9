"""Reassignments that another client started: whether they can complete, and how they are cancelled."""

import json
from collections.abc import Callable, Sequence
from typing import Final

from spindle.model.view import Partition
from spindle.model.waiting import some

_NAMED: Final = 5  # partitions that the file in the message lists


def never_in_sync(partition: Partition, lost: Callable[[int], bool]) -> tuple[int, ...]:
    """Brokers for whose replicas a reassignment waits forever, sorted; empty if it can complete.

    It completes when all replicas that it adds are in sync, and, if it removes more than it adds, all that stay as well
    (`PartitionReassignmentReplicas.maybeCompleteReassignment`). A replica on a dead disk never is.

    Args:
        partition: a partition that is being reassigned.
        lost: whether a broker's replica of it is on no live dir.
    """
    waited = set(partition.adding)
    if len(partition.adding) < len(partition.removing):
        waited |= set(partition.replicas) - set(partition.removing)
    return tuple(sorted(b for b in waited if b not in partition.isr and lost(b)))


def how_to_cancel(partitions: Sequence[Partition]) -> str:
    """How to unblock it, as sentences.

    Kafka cancels a reassignment only if a replica from before it is in sync, because all others would be unclean leaders
    (`PartitionReassignmentRevert.unclean`). Where only added ones are in sync, for example after an unclean election, it completes when it is
    asked for again with these. The tool ignores reassignments that only add replicas: `ReassignPartitionsCommand.cancelAssignment` of 4.3.1
    cancels those that remove some, or add none.

    Args:
        partitions: partitions that are being reassigned; if none of them still is, the text only says that the reassignment completes.
    """
    moving = [p for p in partitions if p.adding or p.removing]
    back = [p for p in moving if set(p.isr) - set(p.adding)]
    told = [p for p in back if p.removing]
    silent = [p for p in back if not p.removing]
    onward = [p for p in moving if p.isr and p not in back]
    nowhere = [p for p in moving if not p.isr]
    text = "Wait until it completes"
    if back or not moving:
        text += ", or cancel it"
    if told:
        before = [(p, [b for b in p.replicas if b not in p.adding]) for p in told]
        text += f": kafka-reassign-partitions.sh --cancel --preserve-throttles --reassignment-json-file {_file(before)}"
    if silent:
        text += (
            f"{'; ' if told else ' '}by Admin.alterPartitionReassignments without a target for {some([p.name for p in silent])} (the tool's --cancel "
            "skips reassignments that only add replicas)"
        )
    text += "."
    if onward:
        in_sync = [(p, [b for b in p.replicas if b in p.isr]) for p in onward]
        text += (
            f" Kafka cannot cancel that of {some([p.name for p in onward])}, because no replica from before is in sync. To complete it with the replicas "
            f"that are: kafka-reassign-partitions.sh --execute --additional --reassignment-json-file {_file(in_sync)}."
        )
    if nowhere:
        text += (
            f" Kafka cannot cancel that of {some([p.name for p in nowhere])}, because no replica is in sync: bring back a disk or broker that has one, or "
            "accept the loss if the condition DataAtRisk names it."
        )
    return text


def _file(wanted: Sequence[tuple[Partition, list[int]]]) -> str:
    """The tool's argument and its content, with the first of the partitions."""
    listed = [
        {"topic": p.topic, "partition": p.index, "replicas": replicas} for p, replicas in wanted[:_NAMED]
    ]
    document = json.dumps({"version": 1, "partitions": listed}, separators=(",", ":"))
    more = f" ({len(wanted) - _NAMED} more partitions)" if len(wanted) > _NAMED else ""
    return f"FILE, with {document} in FILE{more}"
