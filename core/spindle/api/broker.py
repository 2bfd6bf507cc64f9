"""KafkaBroker: one per broker, created by the operator. It records the broker's identity and disks.

Each field has one owner. In the spec, the user owns ``maintenance``, ``acceptDataLoss`` and ``acceptUnavailable``; the operator owns the
rest. In the status, the agent on the broker's node owns ``observed``; the operator owns the rest. Nobody writes a field that another owns.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from spindle.api.common import (
    ApiModel,
    Bytes,
    Condition,
    Count,
    KafkaId,
    Name,
    ObjectMeta,
    Path,
    Sentence,
    ShortText,
    Time,
    TopicName,
    atomic,
    conditions_field,
    hint,
    list_map,
    longest,
    rule,
    rules,
)
from spindle.api.enums import DirMoveState, DiskContent, DiskVerdict, Pressure, StartKind
from spindle.api.names import API_VERSION
from spindle.api.scrub import MOST_CORRUPT, BrokerScrub, CorruptSegment, ScrubProgress
from spindle.api.thresholds import Thresholds, UsageLevel

MOST_DISKS: Final = 64
MOST_MOVES: Final = 2000
MOST_RETIRED: Final = 256

_IDENTITY = "identifies the broker and its data and cannot be changed: restore the previous value"


_FsUuid = Annotated[str, Field(json_schema_extra=longest(128))]


def _never_changes(field: str) -> dict[str, Any]:
    return rules(rule("self == oldSelf", f"{field} {_IDENTITY}"))


class DiskSpec(ApiModel):
    """One disk of the broker and its desired state."""

    name: ShortText = Field(description="Name of the disk: disk0, disk1, …")
    claim: Name = Field(description="PersistentVolumeClaim of the disk.")
    pv: Name | None = Field(
        None,
        description="PersistentVolume that the claim is bound to, once it is bound. Of a new disk for which a local volume is reserved: that volume, from "
        "before it is reserved; without pvUid until the claim is bound.",
    )
    pv_uid: ShortText | None = Field(None, description="UID of that PersistentVolume.")
    fs_uuid: _FsUuid | None = Field(
        None, description="UUID of the file system on the volume, as found by preflight."
    )
    directory_id: KafkaId = Field(
        description="Kafka's directory id of the log dir (directory.id). It is assigned once, for one file system."
    )
    mode: Literal["Active", "Placeholder", "Absent"] = Field(
        "Active",
        description="Active: the disk is a log dir. Placeholder: the disk is dead; a regular file takes the place of its log dir so that "
        "the broker can run with its other disks. Absent: no replica is on the disk any more, and the broker runs without it; "
        "while logDirs still lists the disk, an init container first checks that it holds no replica, before Kafka starts.",
    )
    added: bool | None = Field(
        None,
        description="True while the disk is new to an existing broker and has never held data. The field is removed once "
        "Kafka uses the disk.",
    )


class LogDirEntry(ApiModel):
    """One log dir that may hold replicas."""

    name: ShortText = Field(description="Name of the disk: disk0, disk1, …")
    directory_id: KafkaId = Field(description="Kafka's id of the log dir.")


class LogDirList(ApiModel):
    """The log dirs of a broker that may hold replicas."""

    generation: Count = Field(
        description="Increases by one with each change; the highest generation is valid."
    )
    dirs: list[LogDirEntry] = Field(
        default_factory=list,
        description="Disks that were formatted and have not been removed since.",
        json_schema_extra=atomic(most=MOST_DISKS),
    )


class ReplicaMove(ApiModel):
    """A replica to be moved from one disk of this broker to another."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    from_dir: Path = Field(description="Source log dir.")
    to_dir: Path = Field(description="Target log dir.")


class DiskMaintenance(ApiModel):
    """The state that the user wants one disk to be in."""

    name: ShortText = Field(description="Name of the disk: disk0.")
    desired_state: Literal["Cordoned", "Drained"] = Field(
        description="Cordoned: no new replica is placed on the disk; its replicas stay. Needs Kafka 4.3 or later. Drained: all replicas are "
        "moved off the disk and the disk is removed from the broker; once its state in the status is Drained, it is empty and "
        "safe to pull. To use the disk again, remove the entry.",
    )


class Maintenance(ApiModel):
    """Maintenance of the broker and its disks that the user requests."""

    stopped: bool = Field(
        False,
        description="Stop this broker for maintenance and keep it stopped until this is false again. Spindle stops it only when no "
        "partition would fall below its min.insync.replicas.",
    )
    remove_first: bool = Field(
        False,
        description="When the pool is scaled in, remove this broker before others. Otherwise Spindle removes the brokers with the highest "
        "ids.",
    )
    disks: list[DiskMaintenance] = Field(
        default_factory=list,
        description="Disks to cordon or drain.",
        json_schema_extra=list_map("name", most=MOST_DISKS),
    )


class AcceptedDiskLoss(ApiModel):
    """Acceptance that the data of one disk is lost."""

    name: ShortText = Field(description="Name of the disk: disk0.")
    token: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    "self.matches('^[A-Za-z0-9_-]{22}:[0-9a-f]{8,64}$')",
                    "token has the form <directory id>:<hash>: copy it from the message of the condition "
                    "DataAtRisk, which names the partitions that would be lost",
                ),
                maxLength=128,
            )
        ),
    ] = Field(
        description="<directory id>:<hash of the partitions that would be lost>, as given by the condition DataAtRisk. Spindle first elects "
        "the most complete surviving replica of each partition as leader; only then does an empty replica replace the lost one. "
        "The token is valid for this loss only.",
    )


class DataLossAcceptance(ApiModel):
    """Data whose loss the user accepts."""

    node: Name | None = Field(
        None,
        description="Name of the broker's node, to confirm that the node and this broker's disks on it are lost permanently. It takes "
        "effect only if it names the broker's own node, and only when the Node object is deleted or tainted "
        "node.kubernetes.io/out-of-service.",
    )
    disks: list[AcceptedDiskLoss] = Field(
        default_factory=list,
        description="Disks whose data is permanently lost.",
        json_schema_extra=list_map("name", most=MOST_DISKS),
    )


# The fields of a KafkaBroker's spec that belong to the user; the operator never writes them.
USER_FIELDS: Final = ("maintenance", "acceptDataLoss", "acceptUnavailable")


class KafkaBrokerSpec(ApiModel):
    """Identity of the broker and desired state of its disks."""

    cluster: ShortText = Field(
        description="Name of the KafkaCluster that the broker belongs to.",
        json_schema_extra=_never_changes("cluster"),
    )
    id: int = Field(
        description="Broker id in Kafka (node.id).",
        ge=0,
        le=8999,
        json_schema_extra=hint(
            "broker ids are between 0 and 8999 (controller ids start at 9000): let the operator create KafkaBrokers",
            **_never_changes("id"),
        ),
    )
    pool: ShortText = Field(
        description="Pool that the broker belongs to.", json_schema_extra=_never_changes("pool")
    )
    node: Name | None = Field(None, description="Kubernetes node of the broker's volumes.")
    rack: Name | None = Field(None, description="Rack of the broker (broker.rack).")
    disks: list[DiskSpec] = Field(
        default_factory=list,
        description="The broker's disks.",
        json_schema_extra=list_map("name", most=MOST_DISKS),
    )
    moves: list[ReplicaMove] = Field(
        default_factory=list,
        description="Replicas to move to another disk of this broker. The agent on its node moves them; the operator hands over at most 200 "
        "at a time.",
        json_schema_extra=atomic(most=MOST_MOVES),
    )
    throttle_bytes_per_second: int | None = Field(
        None,
        description="Upper limit in bytes per second for all moves between disks of this broker together. If unset, no limit.",
        ge=1,
        json_schema_extra=hint("write at least 1 byte per second, or omit the throttle", format="int64"),
    )
    throttle_bytes_per_second_min: int | None = Field(
        None,
        description="Lower limit in bytes per second: the agent does not throttle moves below it, however slow the disks become. If unset, "
        "the throttle is fixed at throttleBytesPerSecond.",
        ge=1,
        json_schema_extra=hint("write at least 1 byte per second, or omit the field", format="int64"),
    )
    thresholds: Thresholds | None = Field(
        None,
        description="Usage thresholds of this broker's disks, copied from the KafkaCluster for its pool.",
    )
    ballast_bytes: Bytes | None = Field(
        None,
        description="Size of the ballast file that the agent keeps on each disk as a last reserve. If unset, none.",
    )
    samples_every_seconds: int | None = Field(
        None,
        description="Seconds between two samples of this broker that the agent publishes to Kafka. If unset, it publishes none.",
        ge=1,
        json_schema_extra=hint("write at least 1 second, or omit the field"),
    )
    scrub: BrokerScrub | None = Field(
        None,
        description="Rate at which the agent reads segments on the disks to check them for corruption (scrubbing). If unset, it does not "
        "scrub.",
    )
    retired: list[KafkaId] = Field(
        default_factory=list,
        description="Directory ids of disks that were evacuated and retired. A retired disk that is reinserted counts as foreign until its "
        "owner wipes it. The most recent is last; only the last 256 are kept.",
        json_schema_extra=atomic(most=MOST_RETIRED),
    )
    leaving: bool | None = Field(
        None,
        description="No replica is on this broker any more and its pool is being scaled in: Spindle stops it permanently, unregisters it "
        "from Kafka, and deletes its record. The field is removed if the pool needs the broker again before that.",
    )
    joining: bool | None = Field(
        None,
        description="The broker is new to an existing cluster: its disks are backfilled by planned moves once Kafka uses them.",
    )
    returning: bool | None = Field(
        None,
        description="The broker was recovered from its claims. It runs with a placeholder dir in addition to its disks, so that Kafka "
        "creates no empty replicas, until every replica assigned to it has been found on its disks.",
    )
    log_dirs: LogDirList | None = Field(
        None,
        description="The broker's log dirs that may hold replicas. The same list is stored on its claims and disks.",
    )
    maintenance: Maintenance | None = Field(
        None, description="Set by the user: maintenance of the broker and its disks."
    )
    accept_data_loss: DataLossAcceptance | None = Field(
        None,
        description="Set by the user: data whose loss is accepted. It is separate from maintenance so that an admission policy can guard "
        "it.",
    )
    accept_unavailable: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        "self.matches('^[0-9a-f]{16}$')",
                        "acceptUnavailable is the hash in the entry RestartDeadlock of status.waiting: copy it from there",
                    ),
                    maxLength=16,
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="Set by the user to resolve a restart deadlock (brokers whose restarts wait for each other): allows this broker to "
        "restart although partitions reject writes until it is back. The value is the hash in the entry RestartDeadlock of the "
        "KafkaCluster's status.waiting. It is valid for this one restart and for the partitions named there, and only while "
        "another broker has an in-sync replica of each.",
    )


class DiskUsageStatus(ApiModel):
    """Usage of a disk and the action taken."""

    level: Annotated[str, Field(json_schema_extra={"enum": [level.label for level in UsageLevel]})] = Field(
        description="The usage level that the disk has reached: Normal, Warn, Move (replicas are moved away), Cordon, RejectMoves (no "
        "replica is moved in), DropReplicas (a replica is dropped where enough others are in sync) and, if enabled, "
        "ReduceRetention, DeleteRecords, ThrottleProducers, BlockProducers. Each level includes the actions of the levels "
        "before it."
    )
    since: Time | None = Field(None, description="When the disk reached this level.")
    reason: ShortText | None = Field(
        None,
        description="Reason for the level in CamelCase: UsedPercent or BytesFree (a threshold is reached), Forecast (it will be reached soon), "
        "NotReleased (usage is below the threshold, but not by the hysteresis), Room (there is enough space).",
    )
    message: Sentence | None = Field(None, description="Explanation with the figures.")
    used_percent: Count | None = Field(None, description="Used space in whole per cent.")


class BrokerDiskStatus(ApiModel):
    """Observed state of one disk of the broker."""

    name: ShortText = Field(description="Name of the disk: disk0, disk1, …")
    log_dir: Path | None = Field(None, description="Path of Kafka's log dir on the disk.")
    state: ShortText | None = Field(
        None,
        description="State of the disk: Provisioning, Active, Cordoned, Failed, Evacuating, Evacuated, Replacing, Backfilling, Draining, "
        "Drained, Removed.",
    )
    directory_id: KafkaId | None = Field(
        None, description="Directory id of the disk that this entry describes."
    )
    since: Time | None = Field(None, description="When the disk entered this state.")
    reason: ShortText | None = Field(
        None, description="Reason for the state in CamelCase; the documentation lists all reasons."
    )
    message: Sentence | None = Field(None, description="Explanation of the state.")
    pv: Name | None = Field(None, description="PersistentVolume of the disk.")
    node: Name | None = Field(None, description="Kubernetes node of the volume.")
    device: Path | None = Field(None, description="Mounted device, by its name on the node.")
    path: Path | None = Field(None, description="Path of the volume on its node (local volumes).")
    volume_type: ShortText | None = Field(
        None,
        description="Type of a volume that is not local and that the kubelet mounts below its folder of pods: csi, fc, iscsi or nfs.",
    )
    watched: bool | None = Field(
        None, description="Whether the agent on the node probes the disk; omitted while that is not known."
    )
    watched_message: Sentence | None = Field(
        None, description="If watched is false: why the agent does not probe the disk."
    )
    capacity_bytes: Bytes | None = Field(None, description="Size of the file system in bytes.")
    used_bytes: Bytes | None = Field(None, description="Used bytes of the file system.")
    replicas: Count | None = Field(None, description="Number of replicas on the disk.")
    usage: DiskUsageStatus | None = Field(None, description="Usage of the disk and the action taken.")


class ThresholdTime(ApiModel):
    """When a disk is expected to reach a threshold."""

    at: Time = Field(description="Expected time.")
    low: Time | None = Field(None, description="Not before this time, with a probability of 90 %.")
    high: Time | None = Field(
        None,
        description="Not after this time, with a probability of 90 %; omitted if the disk may never reach the threshold.",
    )


class DiskForecast(ApiModel):
    """Forecast of the disk's usage from its history. Moves in progress are included."""

    bytes_per_second: int = Field(
        description="Growth in bytes per second, averaged over daily and weekly patterns; negative while usage decreases.",
        json_schema_extra={"format": "int64"},
    )
    warn_at: ThresholdTime | None = Field(
        None, description="When usage reaches thresholds.warn; omitted if it does not within weeks."
    )
    move_at: ThresholdTime | None = Field(None, description="When usage reaches thresholds.move.")
    cordon_at: ThresholdTime | None = Field(None, description="When usage reaches thresholds.cordon.")
    block_producers_at: ThresholdTime | None = Field(
        None, description="When usage reaches thresholds.blockProducers."
    )


class ObservedDisk(ApiModel):
    """One disk as observed by the agent on its node."""

    name: ShortText = Field(description="Name of the disk: disk0, disk1, …")
    verdict: Annotated[str, Field(json_schema_extra={"enum": list(DiskVerdict)})] = Field(
        description="Verdict of the probes: Healthy; Suspect (abnormal, no action yet); Slow; Failed; Missing (nothing is mounted there); "
        "Swapped (another file system is mounted there)."
    )
    reason: ShortText | None = Field(
        None,
        description="Reason for the verdict in CamelCase: IOHung, ProbeError, ReadOnly, LogDirOffline, Flapping and others.",
    )
    message: Sentence | None = Field(None, description="Explanation of the verdict.")
    since: Time | None = Field(None, description="When the verdict was reached.")
    stalled: bool | None = Field(
        None,
        description="True while a probe has been pending for half of spec.disks.hungAfterSeconds or longer. A verdict stays for some time after its cause has ended; "
        "Spindle stops a broker for a hung disk only while the disk is stalled.",
    )
    pending_write: Bytes | None = Field(
        None,
        description="While the disk is stalled: identifies the pending probe by its start, in milliseconds of the node's clock.",
    )
    pending_seconds: Count | None = Field(
        None,
        description="While the disk is stalled: how long that probe has been pending, in steps of 5 s. Spindle stops a broker for a hang "
        "only when a later observation shows the same probe pending for longer.",
    )
    content: Annotated[str, Field(json_schema_extra={"enum": list(DiskContent)})] | None = Field(
        None,
        description="Content of the disk: ours, blank, foreign (another broker's disk, a retired disk, or unrelated data) or unknown.",
    )
    fs_uuid: _FsUuid | None = Field(None, description="UUID of the mounted file system.")
    device: Path | None = Field(None, description="Mounted device.")
    capacity_bytes: Bytes | None = Field(None, description="Size of the file system in bytes.")
    used_bytes: Bytes | None = Field(
        None, description="Used bytes of the file system, in steps of 1 % of its size."
    )
    latency_ms: Count | None = Field(
        None, description="Average time of a request to the device in milliseconds, in coarse steps."
    )
    ballast_bytes: Bytes | None = Field(
        None, description="Size of the ballast file on the disk; 0 while it is deleted to free space."
    )
    forecast: DiskForecast | None = Field(
        None, description="Growth of the disk's usage, and when it reaches the thresholds."
    )
    scrub: ScrubProgress | None = Field(None, description="Progress of scrubbing its segments.")
    corrupt: list[CorruptSegment] = Field(
        default_factory=list,
        description="Segments with confirmed corruption; if more than 20, the first 20 in order.",
        json_schema_extra=atomic(most=MOST_CORRUPT),
    )


class ObservedMove(ApiModel):
    """Progress of one of ``spec.moves``."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    from_dir: Path = Field(description="Source log dir.")
    to_dir: Path = Field(description="Target log dir.")
    state: Annotated[str, Field(json_schema_extra={"enum": list(DirMoveState)})] = Field(
        description="Queued, Copying, Done or Failed."
    )
    bytes: Bytes | None = Field(None, description="Size of the replica in bytes.")
    copied: Bytes | None = Field(None, description="Bytes copied so far.")
    bytes_per_second: Bytes | None = Field(None, description="Copy rate, averaged over the last 30 seconds.")
    eta: Time | None = Field(
        None, description="Expected end at the current rate; omitted while the copy does not catch up."
    )
    lag_offsets: Count | None = Field(None, description="Offsets by which the copy lags behind the original.")
    message: Sentence | None = Field(None, description="Why the move failed or waits.")


class ObservedThrottle(ApiModel):
    """The broker's throttle for moves between its disks, while the agent has moves to make."""

    wanted_bytes_per_second: int | None = Field(
        None,
        description="Throttle that the agent requests; the operator sets it. Omitted when nothing is moved, or if there is no limit.",
        ge=1,
        json_schema_extra=hint("write at least 1 byte per second, or omit the field", format="int64"),
    )
    before: ShortText | None = Field(
        None,
        description="Written by agents of earlier versions: the broker's own setting before; omitted if there was none.",
    )
    ours: list[ShortText] = Field(
        default_factory=list,
        description="Written by agents of earlier versions: the values that the agent set, the latest last. The operator restores the "
        "setting if its value is still one of these.",
        json_schema_extra=atomic(most=4),
    )
    pressure: Annotated[str, Field(json_schema_extra={"enum": [load.label for load in Pressure]})] | None = (
        Field(
            None,
            description="Load of the source and target disks: Calm (the rate rises to throttleBytesPerSecond), Busy (the rate stays), Strained "
            "(the rate falls to throttleBytesPerSecondMin).",
        )
    )


class ObservedStarved(ApiModel):
    """An agent that gets too little CPU time or memory to judge its disks."""

    since: Time = Field(description="When it began, by the node's clock.")
    message: Sentence = Field(
        description="Evidence: by how much the agent's timers were late, and the kernel's pressure figures."
    )


class UnwatchedDisk(ApiModel):
    """One disk that the agent cannot look at."""

    name: ShortText = Field(description="Name of the disk: disk0, disk1, …")
    message: Sentence = Field(description="Why the agent cannot look at it.")


class Observed(ApiModel):
    """Observations and moves of the agent on the broker's node."""

    node: Name | None = Field(None, description="Node that the agent runs on.")
    disks: list[ObservedDisk] = Field(
        default_factory=list,
        description="The broker's disks as observed by the agent. A disk that it cannot check is omitted.",
        json_schema_extra=list_map("name", most=MOST_DISKS),
    )
    unwatched: list[UnwatchedDisk] = Field(
        default_factory=list,
        description="Disks with a volume that the agent cannot look at, with the reasons.",
        json_schema_extra=atomic(most=MOST_DISKS),
    )
    moves: list[ObservedMove] = Field(
        default_factory=list,
        description="Progress of each of spec.moves.",
        json_schema_extra=atomic(most=MOST_MOVES),
    )
    throttle: ObservedThrottle | None = Field(
        None,
        description="The broker's throttle for moves between its disks, while the agent has moves to make.",
    )
    starved: ObservedStarved | None = Field(
        None,
        description="Set while the agent gets too little CPU time or memory to distinguish a hung disk from a probe that is not scheduled. "
        "Meanwhile it reports no disk as hung or slow. I/O errors count as usual.",
    )


class BrokerStart(ApiModel):
    """How and why the running Kafka process was started."""

    at: Time = Field(description="When the container was started.")
    reason: ShortText | None = Field(
        None,
        description="Reason for the start: the reason of the restart (SpecChanged, Stopped, …), PodCreated, or ContainerRestarted if the "
        "container ended by itself.",
    )
    kind: Annotated[str, Field(json_schema_extra={"enum": list(StartKind)})] | None = Field(
        None,
        description="Clean (after a clean shutdown), Dirty (after an unclean shutdown, with log recovery), Empty (no logs).",
    )
    logs: Count | None = Field(None, description="Number of logs to load when first observed.")
    logs_left: Count | None = Field(
        None, description="Number of logs still to load; omitted when all are loaded."
    )
    segments_left: Count | None = Field(
        None, description="Number of segments still to recover in the logs being recovered."
    )
    loading_since: Time | None = Field(None, description="When it was first observed loading logs.")
    loaded_at: Time | None = Field(None, description="When it was last observed loading logs.")
    ready_by: Time | None = Field(None, description="Expected end of log loading at the current rate.")
    seconds: Count | None = Field(None, description="Seconds from the start until the broker was in sync.")


class KafkaBrokerStatus(ApiModel):
    """Observed state of the broker and its disks."""

    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this status describes.",
        json_schema_extra={"format": "int64"},
    )
    state: ShortText | None = Field(
        None,
        description="State of the broker: Pending, Starting, Running, Degraded (without a disk), Stopping, Stopped, Leaving (stopped "
        "permanently), Unreachable.",
    )
    message: Sentence | None = Field(None, description="Explanation of the state.")
    conditions: list[Condition] = conditions_field()
    disks: list[BrokerDiskStatus] = Field(
        default_factory=list,
        description="Observed state of the broker's disks.",
        json_schema_extra=list_map("name", most=MOST_DISKS),
    )
    disks_summary: ShortText | None = Field(None, description="Healthy disks / all disks: 2/2.")
    fullest: ShortText | None = Field(None, description="Usage of the fullest disk: 12%.")
    pod_uid: ShortText | None = Field(
        None,
        description="UID of the broker's pod, if it has volumes that are not local: the agent finds them below the kubelet's folder of this "
        "pod.",
    )
    start: BrokerStart | None = Field(None, description="How and why the running Kafka process was started.")
    observed: Observed | None = Field(
        None, description="Observations of the agent on the broker's node, written by the agent only."
    )


class KafkaBroker(ApiModel):
    """One broker of a KafkaCluster, created by the operator: its identity, its disks, and their state."""

    api_version: str = API_VERSION
    kind: str = "KafkaBroker"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaBrokerSpec = Field(description="Identity of the broker and desired state of its disks.")
    status: KafkaBrokerStatus | None = Field(
        None, description="Observed state of the broker, written by Spindle."
    )
