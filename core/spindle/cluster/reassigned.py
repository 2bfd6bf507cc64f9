"""Reassignments that somebody else began: whether they can end, and how they are cancelled."""

import json
from collections.abc import Callable, Sequence
from typing import Final

from spindle.cluster.view import Partition
from spindle.cluster.waiting import some

_NAMED: Final = 5  # partitions that the file of a way out lists


def never_in_sync(partition: Partition, lost: Callable[[int], bool]) -> tuple[int, ...]:
    """Brokers for whose replicas a reassignment waits for ever, in order; none if it may end.

    It ends when all replicas that it adds are in sync, and, where it removes more than it adds, all that stay as well
    (`PartitionReassignmentReplicas.maybeCompleteReassignment`). A replica on a dead disk never is.

    Args:
        partition: one that is being reassigned.
        lost: whether a broker's replica of it stands on no live dir.
    """
    waited = set(partition.adding)
    if len(partition.adding) < len(partition.removing):
        waited |= set(partition.replicas) - set(partition.removing)
    return tuple(sorted(b for b in waited if b not in partition.isr and lost(b)))


def how_to_cancel(partitions: Sequence[Partition]) -> str:
    """The way out, as sentences.

    What only adds replicas the tool passes over: `ReassignPartitionsCommand.cancelAssignment` of 4.3.1 asks for such as remove some, or add none.

    Args:
        partitions: that are being reassigned; with none in motion any more the text says only that it ends.
    """
    told = [p for p in partitions if p.removing]
    silent = [p for p in partitions if p.adding and not p.removing]
    text = "It completes, or is cancelled"
    if told:
        wanted = [
            {"topic": p.topic, "partition": p.index, "replicas": [b for b in p.replicas if b not in p.adding]}
            for p in told[:_NAMED]
        ]
        document = json.dumps({"version": 1, "partitions": wanted}, separators=(",", ":"))
        more = f" ({len(told) - _NAMED} partitions more likewise)" if len(told) > _NAMED else ""
        text += f": kafka-reassign-partitions.sh --cancel --preserve-throttles --reassignment-json-file FILE, with {document} in FILE{more}"
    if silent:
        text += (
            f"{'; ' if told else ' '}by Admin.alterPartitionReassignments without a target for {some([p.name for p in silent])} (the tool's --cancel "
            "passes over what only adds replicas)"
        )
    return f"{text}."
