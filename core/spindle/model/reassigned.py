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

    The tool ignores reassignments that only add replicas: `ReassignPartitionsCommand.cancelAssignment` of 4.3.1 cancels those that remove some, or
    add none.

    Args:
        partitions: partitions that are being reassigned; if none of them still is, the text only says that the reassignment completes.
    """
    told = [p for p in partitions if p.removing]
    silent = [p for p in partitions if p.adding and not p.removing]
    text = "Wait until it completes, or cancel it"
    if told:
        wanted = [
            {"topic": p.topic, "partition": p.index, "replicas": [b for b in p.replicas if b not in p.adding]}
            for p in told[:_NAMED]
        ]
        document = json.dumps({"version": 1, "partitions": wanted}, separators=(",", ":"))
        more = f" ({len(told) - _NAMED} more partitions)" if len(told) > _NAMED else ""
        text += f": kafka-reassign-partitions.sh --cancel --preserve-throttles --reassignment-json-file FILE, with {document} in FILE{more}"
    if silent:
        text += (
            f"{'; ' if told else ' '}by Admin.alterPartitionReassignments without a target for {some([p.name for p in silent])} (the tool's --cancel "
            "skips reassignments that only add replicas)"
        )
    return f"{text}."
