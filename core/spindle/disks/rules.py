"""When a disk may be formatted, and the rule of one file system per directory id.

For brokers: "no format over the last copy"; for controllers: "no second bootstrap" (`docs/safety.md`, rules 1 and 13).

Each predicate returns None for yes, or a refusal that names the partitions or objects and what unblocks it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spindle.model.view import Broker, KafkaView, Partition
from spindle.model.waiting import Waiting, counted, some

_LAST_COPY: Final = 1
_ONE_BOOTSTRAP: Final = 13


@dataclass(frozen=True)
class Cleared:
    """A recorded clearance.

    Attributes:
        fs_uuid: of the file system that was cleared; None where file systems have no UUID.
    """

    directory_id: str
    pv_uid: str
    fs_uuid: str | None


def may_format(
    view: KafkaView, broker_id: int, on_disk: Collection[tuple[str, int]] | None
) -> Waiting | None:
    """Whether a blank disk of a broker may be formatted: "no format over the last copy" (`docs/safety.md`, rule 1).

    ``on_disk`` are the partitions (topic, index) that were on the disk that it replaces; None if that is not known,
    which counts as all partitions of the broker. It is empty only for a slot that never had a disk before: then
    nothing can be lost, and Kafka need not even be running.
    """
    if on_disk is not None and not on_disk:
        return None
    if (unknown := _unknown(view)) is not None:
        return unknown
    brokers: Mapping[int, Broker] = view.brokers or {}
    concerned = [
        partition
        for key, partition in view.partition_index.by_key.items()
        if on_disk is None or key in on_disk
    ]
    # A broker that is no longer a replica can still be in the ELR, so its absence there must be known.
    unsure = sorted(p.name for p in concerned if p.elr is None)
    if unsure:
        return Waiting.refused(
            rule=_LAST_COPY,
            reason="ElrUnknown",
            message=f"Kafka did not report which replicas are eligible leaders (ELR) of {counted(len(unsure), 'partition')}: {some(unsure)}.",
            unblocked_by="Nothing to do: Spindle continues when Kafka answers DescribeTopicPartitions for them.",
            objects=tuple(unsure),
        )
    last = sorted(p.name for p in concerned if not _safe(p, broker_id, brokers))
    if not last:
        return None
    return Waiting.refused(
        rule=_LAST_COPY,
        reason="LastReplicaAtRisk",
        message=(
            f"Formatting the disk could lose {counted(len(last), 'partition')} that {'has' if len(last) == 1 else 'have'} no other live replica "
            f"known to be in sync, or that broker {broker_id} may still lead: {some(last)}."
        ),
        unblocked_by=(
            "Bring back the old disk or the brokers with the other replicas; if they are permanently lost, accept the loss in "
            "spec.acceptDataLoss of the KafkaBroker (the condition DataAtRisk shows how)."
        ),
        objects=tuple(last),
    )


def may_clear(
    directory_id: str, pv_uid: str, fs_uuid: str | None, recorded: Iterable[Cleared]
) -> Waiting | None:
    """Whether a directory id may be cleared for a file system: for one only, ever. A second one would be a blank disk with a known id."""
    for before in recorded:
        if before.directory_id == directory_id and (before.fs_uuid, before.pv_uid) != (fs_uuid, pv_uid):
            return Waiting.refused(
                rule=_ONE_BOOTSTRAP,
                reason="DirectoryIdAlreadyUsed",
                message=(
                    f"Directory id {directory_id} was already cleared for file system {before.fs_uuid}; the disk has file system {fs_uuid}."
                ),
                unblocked_by="Reinsert the original disk, or replace the disk under a new directory id.",
                objects=(directory_id,),
            )
    return None


def may_format_voter(
    directory_id: str,
    pv_uid: str,
    fs_uuid: str | None,
    recorded: Iterable[Cleared],
    *,
    seen_running: bool = False,
) -> Waiting | None:
    """Whether a controller's blank disk may be formatted with the recorded directory id: "no second bootstrap" (`docs/safety.md`, rule 13).

    Such a format creates a voter that has forgotten its votes and the records it acknowledged. That is harmless only
    if it never ran: no other file system was ever cleared for its directory id, and the voter itself was never
    observed running (``seen_running``: its pod was ready, or the quorum reported an offset for it).
    """
    if (refusal := may_clear(directory_id, pv_uid, fs_uuid, recorded)) is not None:
        return refusal
    if seen_running:
        return Waiting.refused(
            rule=_ONE_BOOTSTRAP,
            reason="VoterLogLost",
            message=f"The voter with directory id {directory_id} has run before, but its disk is blank now.",
            unblocked_by=(
                "Reinsert the original disk, or let a live majority of the other controllers remove the voter so that it can join "
                "again."
            ),
            objects=(directory_id,),
        )
    return None


def _unknown(view: KafkaView) -> Waiting | None:
    """What could not be read permits no format: "unknown is not absent" (`docs/safety.md`, rule 8)."""
    if view.error is None and view.partitions is not None and view.brokers is not None:
        return None
    why = view.error or "its topics or brokers could not be listed"
    return Waiting.refused(
        rule=_LAST_COPY,
        reason="KafkaUnknown",
        message=f"Spindle does not know which replicas are in sync: {why}.",
        unblocked_by="Nothing to do: Spindle continues when it can query Kafka again.",
    )


def _safe(partition: Partition, broker_id: int, brokers: Mapping[int, Broker]) -> bool:
    """Whether an empty replica on this broker could not be elected leader.

    An eligible broker (ELR, KIP-966), while another one is in sync and leads, loses its eligibility when it starts with a blank disk: the
    disk has no clean-shutdown file, so Kafka removes the broker from every ELR before unfencing it
    (``LogManager.readBrokerEpochFromCleanShutdownFiles``, ``ReplicationControlManager.handleBrokerUncleanShutdown``), and the last known
    leader is the other one. Where min.insync.replicas equals the number of replicas, it would stay eligible for as long as it is away.
    """
    if broker_id in partition.isr:
        return False
    eligible = broker_id in (partition.elr or ())
    if eligible and partition.leader in (None, broker_id):
        return False
    if broker_id not in partition.replicas and not eligible:
        return True
    return any(
        other != broker_id and other in brokers and _holds(brokers[other], partition)
        for other in partition.isr
    )


def _holds(broker: Broker, partition: Partition) -> bool:
    """Whether a live broker reports the replica on one of its live dirs."""
    if broker.fenced or broker.log_dirs is None:
        return False
    return any(
        log_dir.error == 0 and (partition.topic, partition.index) in log_dir.replicas
        for log_dir in broker.log_dirs
    )
