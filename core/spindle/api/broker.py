"""KafkaBroker: one per broker, made by the operator; the record of the broker's identity and of its disks.

Each part has one owner. In the spec ``maintenance``, ``acceptDataLoss`` and ``acceptUnavailable`` are a person's, everything else is the
operator's. In the status ``observed`` is what the agent on the broker's node sees, everything else is the operator's. Nobody
writes what is another's.
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
from spindle.api.policy import Thresholds
from spindle.api.scrub import MOST_CORRUPT, BrokerScrub, CorruptSegment, ScrubProgress
from spindle.cluster.names import API_VERSION
from spindle.cluster.start_kinds import KINDS

MOST_DISKS: Final = 64
MOST_MOVES: Final = 2000
MOST_RETIRED: Final = 256
VERDICTS: Final = ("Healthy", "Suspect", "Slow", "Failed", "Missing", "Swapped")
CONTENTS: Final = ("ours", "blank", "foreign", "unknown")
LEVELS: Final = (
    "Normal",
    "Warn",
    "Move",
    "Cordon",
    "RejectMoves",
    "DropReplicas",
    "ReduceRetention",
    "DeleteRecords",
    "ThrottleProducers",
    "BlockProducers",
)
MOVE_STATES: Final = ("Queued", "Copying", "Done", "Failed")
PRESSURES: Final = ("Calm", "Busy", "Strained")

_IDENTITY = "identifies the broker and its data and cannot be changed: put the former value back"


_FsUuid = Annotated[str, Field(json_schema_extra=longest(128))]


def _never_changes(field: str) -> dict[str, Any]:
    return rules(rule("self == oldSelf", f"{field} {_IDENTITY}"))


class DiskSpec(ApiModel):
    """One disk of the broker and what it should be."""

    name: ShortText = Field(description="Name of the disk: disk0, disk1, …")
    claim: Name = Field(description="PersistentVolumeClaim of the disk.")
    pv: Name | None = Field(None, description="PersistentVolume behind the claim, once it is bound.")
    pv_uid: ShortText | None = Field(None, description="UID of that PersistentVolume.")
    fs_uuid: _FsUuid | None = Field(
        None, description="UUID of the file system on the volume, as preflight found it."
    )
    directory_id: KafkaId = Field(description="Kafka's id of the log dir; given once, for one file system.")
    mode: Literal["Active", "Placeholder", "Absent"] = Field(
        "Active",
        description="Active: the disk is a log dir. Placeholder: the disk is dead, and a file stands in its place so "
        "that the broker can run with the others. Absent: nothing stands on the disk any more, and the broker runs "
        "without it; as long as logDirs names it, that is to be confirmed while the broker is stopped.",
    )
    added: bool | None = Field(
        None,
        description="The disk was added to a broker that ran before, and nothing was ever on it. Gone once Kafka uses it.",
    )


class LogDirEntry(ApiModel):
    """One log dir that may hold replicas."""

    name: ShortText = Field(description="Name of the disk: disk0, disk1, …")
    directory_id: KafkaId = Field(description="Kafka's id of the log dir.")


class LogDirList(ApiModel):
    """The log dirs of a broker that may hold replicas."""

    generation: Count = Field(description="Grows by one with each change: the highest one counts.")
    dirs: list[LogDirEntry] = Field(
        default_factory=list,
        description="Disks that were formatted and not removed since.",
        json_schema_extra=atomic(most=MOST_DISKS),
    )


class ReplicaMove(ApiModel):
    """A replica that is to go from one disk of this broker to another."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    from_dir: Path = Field(description="Log dir that it leaves.")
    to_dir: Path = Field(description="Log dir that it goes to.")


class DiskMaintenance(ApiModel):
    """The state that a person wants one disk to be in."""

    name: ShortText = Field(description="Name of the disk: disk0.")
    desired_state: Literal["Cordoned", "Drained"] = Field(
        description="Cordoned: no new replica is placed on the disk; its replicas stay. Needs Kafka 4.3 or later. Drained: all "
        "replicas are moved off the disk and it is removed from the broker; state Drained in the status says that it is empty and "
        "safe to pull. Remove the entry, and the disk is used again.",
    )


class Maintenance(ApiModel):
    """What a person wants done with the broker and its disks."""

    stopped: bool = Field(
        False,
        description="Stop this broker for maintenance, and keep it stopped until this is false again. It is stopped only when no "
        "partition would fall below its min.insync.replicas.",
    )
    remove_first: bool = Field(
        False,
        description="When the pool is scaled in, remove this broker before others. Otherwise the highest ids are removed.",
    )
    disks: list[DiskMaintenance] = Field(
        default_factory=list,
        description="Disks that are to be cordoned or drained.",
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
        description="<directory id>:<hash of the partitions that would be lost>, as the condition DataAtRisk gives it. The replica "
        "that has most of each partition is made its leader first; only then an empty replica replaces the lost one. It counts "
        "for that loss only.",
    )


class DataLossAcceptance(ApiModel):
    """Data that a person gives up."""

    node: Name | None = Field(
        None,
        description="The node of that name, and this broker's disks in it, are gone for good. It counts only for the broker's "
        "node, and only when the Node object is deleted or tainted node.kubernetes.io/out-of-service.",
    )
    disks: list[AcceptedDiskLoss] = Field(
        default_factory=list,
        description="Disks whose data is lost for good.",
        json_schema_extra=list_map("name", most=MOST_DISKS),
    )


class KafkaBrokerSpec(ApiModel):
    """What the broker is and what its disks should be."""

    cluster: ShortText = Field(
        description="Name of its KafkaCluster.", json_schema_extra=_never_changes("cluster")
    )
    id: int = Field(
        description="Kafka's id of the broker.",
        ge=0,
        le=8999,
        json_schema_extra=hint(
            "broker ids are between 0 and 8999 (controllers begin at 9000): leave KafkaBrokers to the operator",
            **_never_changes("id"),
        ),
    )
    pool: ShortText = Field(
        description="Pool that the broker belongs to.", json_schema_extra=_never_changes("pool")
    )
    node: Name | None = Field(None, description="Kubernetes node that the broker's volumes are on.")
    rack: Name | None = Field(None, description="Rack of the broker, as broker.rack has it.")
    disks: list[DiskSpec] = Field(
        default_factory=list,
        description="The broker's disks.",
        json_schema_extra=list_map("name", most=MOST_DISKS),
    )
    moves: list[ReplicaMove] = Field(
        default_factory=list,
        description="Replicas that are to go to another disk of this broker; the agent on its node sees to it. The "
        "operator hands over a part at a time, at most 200.",
        json_schema_extra=atomic(most=MOST_MOVES),
    )
    throttle_bytes_per_second: int | None = Field(
        None,
        description="Most bytes per second that moves between disks of this broker may copy together. Left out, no "
        "limit.",
        ge=1,
        json_schema_extra=hint("write at least 1 byte per second, or leave the throttle out", format="int64"),
    )
    throttle_bytes_per_second_min: int | None = Field(
        None,
        description="Bytes per second below which the agent does not throttle them, however slow the disks become. Left out, it "
        "keeps to throttleBytesPerSecond.",
        ge=1,
        json_schema_extra=hint("write at least 1 byte per second, or leave it out", format="int64"),
    )
    thresholds: Thresholds | None = Field(
        None,
        description="Fill levels of this broker's disks at which something is done, as the KafkaCluster has them for its pool.",
    )
    ballast_bytes: Bytes | None = Field(
        None,
        description="Size of the file that the agent keeps on each disk as a last reserve. Left out, none.",
    )
    samples_every_seconds: int | None = Field(
        None,
        description="Seconds between two samples of this broker that the agent publishes to Kafka. Left out, none.",
        ge=1,
        json_schema_extra=hint("write at least 1 second, or leave it out"),
    )
    scrub: BrokerScrub | None = Field(
        None,
        description="How fast the agent reads what lies on the disks, to check it. Left out, it does not.",
    )
    retired: list[KafkaId] = Field(
        default_factory=list,
        description="Directory ids of disks that were evacuated and given up. Put back, such a disk is foreign until "
        "its owner wipes it. The latest come last; of more than 256 the oldest are forgotten.",
        json_schema_extra=atomic(most=MOST_RETIRED),
    )
    leaving: bool | None = Field(
        None,
        description="Nothing stands on this broker any more, and its pool is to have fewer: it is stopped for good, unregistered "
        "from Kafka, and then forgotten. Gone if it is wanted again before that.",
    )
    joining: bool | None = Field(
        None,
        description="The broker is new to a cluster that ran before: its disks are filled by planned moves once Kafka uses them.",
    )
    returning: bool | None = Field(
        None,
        description="The broker was found again by its claims. It runs with a placeholder dir besides its disks, so that Kafka makes "
        "no replica anew, until all that is assigned to it was seen on its disks.",
    )
    log_dirs: LogDirList | None = Field(
        None,
        description="The broker's log dirs that may hold replicas, as its claims and disks have the list, too.",
    )
    maintenance: Maintenance | None = Field(
        None, description="Set by a person: what is to be done with the broker and its disks."
    )
    accept_data_loss: DataLossAcceptance | None = Field(
        None,
        description="Set by a person: data that is given up. An admission policy can guard it apart from maintenance.",
    )
    accept_unavailable: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        "self.matches('^[0-9a-f]{16}$')",
                        "acceptUnavailable is the hash that the entry RestartDeadlock of status.waiting gives: copy it from there",
                    ),
                    maxLength=16,
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="Set by a person: where brokers wait for each other, this one may restart although partitions refuse writes until it is "
        "back. It is the hash that the entry RestartDeadlock of the KafkaCluster's status.waiting gives; it counts for this one restart "
        "and for the partitions that were named, and only while another broker has a copy of each in sync.",
    )


class DiskUsageStatus(ApiModel):
    """How full a disk is, and what is done about that."""

    level: Annotated[str, Field(json_schema_extra={"enum": list(LEVELS)})] = Field(
        description="The level that the disk has reached: Normal, Warn, Move (replicas are moved away), Cordon, RejectMoves (no replica "
        "is moved in), DropReplicas (a replica is dropped where enough others are in sync), and where they are turned on "
        "ReduceRetention, DeleteRecords, ThrottleProducers, BlockProducers. Each includes those before it."
    )
    since: Time | None = Field(None, description="Since when it has that level.")
    reason: ShortText | None = Field(
        None, description="Why, one word in CamelCase: UsedPercent, BytesFree, Forecast, NotReleased, Room."
    )
    message: Sentence | None = Field(None, description="Why, as a sentence with the numbers.")
    used_percent: Count | None = Field(None, description="How much of the disk is used, in whole per cent.")


class BrokerDiskStatus(ApiModel):
    """One disk of the broker as it is."""

    name: ShortText = Field(description="Name of the disk: disk0, disk1, …")
    log_dir: Path | None = Field(None, description="Kafka's log dir on the disk.")
    state: ShortText | None = Field(
        None,
        description="State of the disk in its life: Provisioning, Active, Cordoned, Failed, Evacuating, Evacuated, "
        "Replacing, Backfilling, Draining, Drained, Removed.",
    )
    directory_id: KafkaId | None = Field(None, description="Directory id of the disk that this is about.")
    since: Time | None = Field(None, description="Since when it is in that state.")
    reason: ShortText | None = Field(
        None, description="Why it is in that state, one word in CamelCase that the manual lists."
    )
    message: Sentence | None = Field(None, description="Why it is so, as a sentence.")
    pv: Name | None = Field(None, description="PersistentVolume behind the disk.")
    node: Name | None = Field(None, description="Kubernetes node that the volume is on.")
    device: Path | None = Field(None, description="Device that is mounted, as the node calls it.")
    path: Path | None = Field(None, description="Path of the volume on its node (local volumes).")
    capacity_bytes: Bytes | None = Field(None, description="Size of the file system in bytes.")
    used_bytes: Bytes | None = Field(None, description="Bytes of it in use.")
    replicas: Count | None = Field(None, description="How many replicas are on it.")
    usage: DiskUsageStatus | None = Field(None, description="How full it is, and what is done about that.")


class ThresholdTime(ApiModel):
    """When a disk is expected to reach a level."""

    at: Time = Field(description="When, as far as can be told.")
    low: Time | None = Field(None, description="In nine cases of ten not before this.")
    high: Time | None = Field(
        None, description="In nine cases of ten not after this; left out if it may as well never be."
    )


class DiskForecast(ApiModel):
    """What is to be expected of a disk, from what was seen of it so far. Moves that are under way count."""

    bytes_per_second: int = Field(
        description="How fast it fills, on average of day and week; negative while it empties.",
        json_schema_extra={"format": "int64"},
    )
    warn_at: ThresholdTime | None = Field(
        None, description="When it reaches thresholds.warn; left out if it does not, for weeks."
    )
    move_at: ThresholdTime | None = Field(None, description="When it reaches thresholds.move.")
    cordon_at: ThresholdTime | None = Field(None, description="When it reaches thresholds.cordon.")
    block_producers_at: ThresholdTime | None = Field(
        None, description="When it reaches thresholds.blockProducers."
    )


class ObservedDisk(ApiModel):
    """One disk as the agent on its node sees it."""

    name: ShortText = Field(description="Name of the disk: disk0, disk1, …")
    verdict: Annotated[str, Field(json_schema_extra={"enum": list(VERDICTS)})] = Field(
        description="What the probes come to: Healthy; Suspect (something is odd, nothing is done yet); Slow; Failed; "
        "Missing (nothing is mounted there); Swapped (another file system is mounted there)."
    )
    reason: ShortText | None = Field(
        None,
        description="Why, one word in CamelCase: Hung, ProbeError, ReadOnly, LogDirOffline, Flapping and others.",
    )
    message: Sentence | None = Field(None, description="Why, as a sentence.")
    since: Time | None = Field(None, description="When the verdict was reached.")
    stalled: bool | None = Field(
        None,
        description="True while a probe has been pending for half of spec.disks.hungAfterSeconds or longer. A verdict "
        "lasts longer than what it is about; only a broker whose disk is stalled now is stopped for it.",
    )
    pending_write: Bytes | None = Field(
        None,
        description="While it is stalled, which probe is pending: milliseconds of the node's own clock at which it began.",
    )
    pending_seconds: Count | None = Field(
        None,
        description="While it is stalled, for how long that probe has been pending, in steps of 5 s. A broker is stopped for a hang only when the "
        "same probe was pending for longer in a later look.",
    )
    content: Annotated[str, Field(json_schema_extra={"enum": list(CONTENTS)})] | None = Field(
        None,
        description="What is on it: ours, blank, foreign (another broker's, a retired disk, or somebody else's data) or "
        "unknown.",
    )
    fs_uuid: _FsUuid | None = Field(None, description="UUID of the file system that is mounted there.")
    device: Path | None = Field(None, description="Device that is mounted there.")
    capacity_bytes: Bytes | None = Field(None, description="Size of the file system in bytes.")
    used_bytes: Bytes | None = Field(
        None, description="Bytes of it in use, in steps of a hundredth of its size."
    )
    latency_ms: Count | None = Field(
        None, description="What a request to the device takes on average, in milliseconds, in coarse steps."
    )
    ballast_bytes: Bytes | None = Field(
        None, description="Size of the ballast that stands on it; 0 while it is given up."
    )
    forecast: DiskForecast | None = Field(
        None, description="How fast it fills, and when it reaches its thresholds."
    )
    scrub: ScrubProgress | None = Field(None, description="How far the checking of its segments is.")
    corrupt: list[CorruptSegment] = Field(
        default_factory=list,
        description="Segments in which something was found and confirmed; of more than 20 the first in order.",
        json_schema_extra=atomic(most=MOST_CORRUPT),
    )


class ObservedMove(ApiModel):
    """How far one of ``spec.moves`` is."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    from_dir: Path = Field(description="Log dir that it leaves.")
    to_dir: Path = Field(description="Log dir that it goes to.")
    state: Annotated[str, Field(json_schema_extra={"enum": list(MOVE_STATES)})] = Field(
        description="Queued, Copying, Done or Failed."
    )
    bytes: Bytes | None = Field(None, description="Size of the replica in bytes.")
    copied: Bytes | None = Field(None, description="Bytes that were copied so far.")
    bytes_per_second: Bytes | None = Field(
        None, description="How fast it is copied, on average of the last half minute."
    )
    eta: Time | None = Field(
        None, description="When it ends if it goes on so; left out while it comes no nearer to its end."
    )
    lag_offsets: Count | None = Field(None, description="Offsets that the copy is behind the original.")
    message: Sentence | None = Field(None, description="Why it failed or waits, as a sentence.")


class ObservedThrottle(ApiModel):
    """The broker's throttle for moves between its disks, while the agent has any to make."""

    wanted_bytes_per_second: int | None = Field(
        None,
        description="What the agent wants it to be; the operator sets it. Left out when nothing is moved, or without a limit.",
        ge=1,
        json_schema_extra=hint("write at least 1 byte per second, or leave it out", format="int64"),
    )
    before: ShortText | None = Field(
        None,
        description="Of an agent of an earlier version: the broker's own setting before; left out if there was none.",
    )
    ours: list[ShortText] = Field(
        default_factory=list,
        description="Of an agent of an earlier version: what it has set it to, the latest last. Put back where it is still one of these.",
        json_schema_extra=atomic(most=4),
    )
    pressure: Annotated[str, Field(json_schema_extra={"enum": list(PRESSURES)})] | None = Field(
        None,
        description="What the disks that are copied from and to feel: Calm (the rate rises to throttleBytesPerSecond), Busy (it "
        "stays), Strained (it falls to throttleBytesPerSecondMin).",
    )


class ObservedStarved(ApiModel):
    """An agent that the machine gives too little time to judge its disks."""

    since: Time = Field(description="When it began, by the node's own clock.")
    message: Sentence = Field(
        description="What shows it: by how much its timers were late, and the kernel's pressure figures."
    )


class Observed(ApiModel):
    """What the agent on the broker's node sees and does."""

    node: Name | None = Field(None, description="The node that the agent runs on.")
    disks: list[ObservedDisk] = Field(
        default_factory=list,
        description="The broker's disks as the agent sees them. A disk that it cannot look at is left out.",
        json_schema_extra=list_map("name", most=MOST_DISKS),
    )
    moves: list[ObservedMove] = Field(
        default_factory=list,
        description="How far each of spec.moves is.",
        json_schema_extra=atomic(most=MOST_MOVES),
    )
    throttle: ObservedThrottle | None = Field(
        None,
        description="The broker's throttle for moves between its disks, while the agent has any to make.",
    )
    starved: ObservedStarved | None = Field(
        None,
        description="Set while the machine gives the agent too little time to tell a disk that hangs from one whose turn does not come: it then "
        "calls none hung or slow. Errors that disks answer with count as ever.",
    )


class BrokerStart(ApiModel):
    """How the Kafka that runs came up, and why it was started."""

    at: Time = Field(description="When its container was started.")
    reason: ShortText | None = Field(
        None,
        description="Why: the reason of its restart (SpecChanged, Stopped, …), PodCreated, or ContainerRestarted where it had ended by itself.",
    )
    kind: Annotated[str, Field(json_schema_extra={"enum": list(KINDS)})] | None = Field(
        None,
        description="Clean (it was stopped cleanly before), Dirty (it was not, and recovers its logs), Empty (it has none).",
    )
    logs: Count | None = Field(None, description="How many logs it had to load when that was first seen.")
    logs_left: Count | None = Field(
        None, description="How many of them are to go; left out when it has loaded them."
    )
    segments_left: Count | None = Field(None, description="How many segments of logs in work are to go.")
    loading_since: Time | None = Field(None, description="Since when it was seen loading.")
    loaded_at: Time | None = Field(None, description="When it was last seen loading.")
    ready_by: Time | None = Field(None, description="When it has loaded its logs if it goes on so.")
    seconds: Count | None = Field(None, description="Seconds from its start until it was in sync.")


class KafkaBrokerStatus(ApiModel):
    """What the broker and its disks are."""

    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this status is about.",
        json_schema_extra={"format": "int64"},
    )
    state: ShortText | None = Field(
        None,
        description="State of the broker: Pending, Starting, Running, Degraded (without a disk), Stopping, Stopped, "
        "Leaving (stopped for good), Unreachable.",
    )
    message: Sentence | None = Field(None, description="Why it is so, as a sentence.")
    conditions: list[Condition] = conditions_field()
    disks: list[BrokerDiskStatus] = Field(
        default_factory=list,
        description="The broker's disks as they are.",
        json_schema_extra=list_map("name", most=MOST_DISKS),
    )
    disks_summary: ShortText | None = Field(None, description="Healthy disks of all disks: 2/2.")
    fullest: ShortText | None = Field(None, description="Fill of the fullest disk: 12%.")
    start: BrokerStart | None = Field(
        None, description="How the Kafka that runs came up, and why it was started."
    )
    observed: Observed | None = Field(
        None, description="What the agent on the broker's node sees, written by the agent alone."
    )


class KafkaBroker(ApiModel):
    """One broker of a KafkaCluster, made by the operator: its identity, its disks, and how they are."""

    api_version: str = API_VERSION
    kind: str = "KafkaBroker"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaBrokerSpec = Field(description="What the broker is and what its disks should be.")
    status: KafkaBrokerStatus | None = Field(None, description="What the broker is, written by Spindle.")
