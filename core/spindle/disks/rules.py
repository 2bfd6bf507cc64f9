"""When a disk may be formatted: rule 1 for brokers, rule 13 for controllers, and one file system per directory id.

Each predicate answers None for yes, or a refusal that names the partitions or objects and what would unblock it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spindle.cluster.view import Broker, KafkaView, Partition
from spindle.cluster.waiting import Waiting, counted, some

_LAST_COPY: Final = 1
_ONE_BIRTH: Final = 13


@dataclass(frozen=True)
class Cleared:
    """A clearance on record.

    Attributes:
        fs_uuid: of the file system that was cleared; None where file systems have no UUID there.
    """

    directory_id: str
    pv_uid: str
    fs_uuid: str | None


def may_format(
    view: KafkaView, broker_id: int, on_disk: Collection[tuple[str, int]] | None
) -> Waiting | None:
    """Rule 1: whether a blank disk of a broker may be formatted.

    ``on_disk`` are the partitions (topic, index) that were on what the disk replaces; None if that is not known,
    which counts as all that the broker has. It is empty only for a place that never had a disk before: then
    nothing can be lost, and Kafka need not even be up.
    """
    if on_disk is not None and not on_disk:
        return None
    if (unknown := _unknown(view)) is not None:
        return unknown
    brokers: Mapping[int, Broker] = view.brokers or {}
    concerned = [
        partition
        for partition in view.partitions or ()
        if on_disk is None or (partition.topic, partition.index) in on_disk
    ]
    # Also a broker that is no replica any more can stand in the ELR, so its absence there has to be known.
    unsure = sorted(p.name for p in concerned if p.elr is None)
    if unsure:
        return Waiting.refused(
            rule=_LAST_COPY,
            reason="ElrUnknown",
            message=f"Kafka did not say which replicas may lead {counted(len(unsure), 'partition')}: {some(unsure)}.",
            unblocked_by="Kafka answers DescribeTopicPartitions for them.",
            objects=tuple(unsure),
        )
    last = sorted(p.name for p in concerned if not _safe(p, broker_id, brokers))
    if not last:
        return None
    return Waiting.refused(
        rule=_LAST_COPY,
        reason="LastReplicaAtRisk",
        message=(
            f"Formatting could lose {counted(len(last), 'partition')} of which no other live replica is known to be "
            f"in sync, or which broker {broker_id} may still lead: {some(last)}."
        ),
        unblocked_by=(
            "Bring the old disk or the brokers with the other replicas back; if they are lost for good, accept the "
            "loss by name."
        ),
        objects=tuple(last),
    )


def may_clear(
    directory_id: str, pv_uid: str, fs_uuid: str | None, recorded: Iterable[Cleared]
) -> Waiting | None:
    """One directory id is cleared for one file system, ever: a second one would be a blank disk under a known name."""
    for before in recorded:
        if before.directory_id == directory_id and (before.fs_uuid, before.pv_uid) != (fs_uuid, pv_uid):
            return Waiting.refused(
                rule=_ONE_BIRTH,
                reason="DirectoryIdAlreadyUsed",
                message=(
                    f"Directory id {directory_id} was cleared for file system {before.fs_uuid} already; this is {fs_uuid}."
                ),
                unblocked_by="The original disk comes back, or the disk is replaced under a new directory id.",
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
    """Rule 13: whether a controller's blank disk may be formatted with the directory id on record.

    Such a format makes a voter that has forgotten whom it voted for and what it acknowledged. That is harmless only
    if it never ran: no other file system was ever cleared for its directory id, and the voter itself was never
    seen running (``seen_running``: its pod was ready, or the quorum named it with an offset).
    """
    if (refusal := may_clear(directory_id, pv_uid, fs_uuid, recorded)) is not None:
        return refusal
    if seen_running:
        return Waiting.refused(
            rule=_ONE_BIRTH,
            reason="VoterLogLost",
            message=f"The voter with directory id {directory_id} has run before, and now its disk is blank.",
            unblocked_by=(
                "The original disk comes back, or a live majority of the other controllers removes the voter so that "
                "it can join anew."
            ),
            objects=(directory_id,),
        )
    return None


def _unknown(view: KafkaView) -> Waiting | None:
    """Rule 8: what could not be read permits no format."""
    if view.error is None and view.partitions is not None and view.brokers is not None:
        return None
    why = view.error or "its topics or brokers could not be listed"
    return Waiting.refused(
        rule=_LAST_COPY,
        reason="KafkaUnknown",
        message=f"Which replicas are in sync is not known: {why}.",
        unblocked_by="Kafka can be asked again.",
    )


def _safe(partition: Partition, broker_id: int, brokers: Mapping[int, Broker]) -> bool:
    """Whether an empty replica on this broker could not be elected.

    One that is eligible (ELR, KIP-966) while another is in sync and leads is eligible no more once it starts with a blank disk: that has no
    mark of a clean stop, so Kafka takes the broker out of every ELR before it lets it in (``LogManager.readBrokerEpochFromCleanShutdownFiles``,
    ``ReplicationControlManager.handleBrokerUncleanShutdown``), and who led last is the other one. Where min.insync.replicas is
    the number of replicas it would stay eligible for as long as it is away.
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
    """Whether a broker that is there shows the replica on a live dir of its own."""
    if broker.fenced or broker.log_dirs is None:
        return False
    return any(
        log_dir.error == 0 and (partition.topic, partition.index) in log_dir.replicas
        for log_dir in broker.log_dirs
    )
