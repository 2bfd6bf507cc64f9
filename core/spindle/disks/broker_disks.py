"""Each disk of each broker as one pass sees it: its desired mode, what agent and Kafka report of it, and its state so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from spindle.api import names
from spindle.api.enums import DiskState, DiskVerdict
from spindle.disks import correlated_failures
from spindle.disks.correlated_failures import SHARED_FOR_SECONDS
from spindle.disks.health import (
    FULL,
    KAFKA_OFFLINE,
    NOBODY,
    OFFLINE_FULL,
    OTHER_FILE_SYSTEM,
    PREFLIGHT,
    AgentReport,
    Health,
    health,
)
from spindle.model import disk_facts, objects
from spindle.model.agents import NO_AGENT, Agent
from spindle.model.broker_disks import disks_of, in_use_before
from spindle.model.lost_brokers import claimed_lost
from spindle.model.maintenance import NO_REQUEST, DiskRequest, disk_requests
from spindle.model.node_loss import NodeLossClaim
from spindle.model.pod_disks import another_in, mode_in
from spindle.model.reports import inspected
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds
from spindle.model.view import LogDir

EXCLUDED: Final = (
    "Excluded"  # the health of a disk that is excluded from its broker and that no agent observes
)
HUNG: Final = "IOHung"
CORRELATED_STALLS: Final = "CorrelatedDiskStalls"
# Writes count as stalled since the same moment if their ages differ by no more: agents report in steps of five seconds and are read seconds later.
_AT_ONCE: Final = 15.0
NODE_LOST: Final = "NodeLost"
_STATES: Final = frozenset(state.value for state in DiskState)


@dataclass(frozen=True)
class BrokerDisk:
    """One disk.

    Attributes:
        disk: its entry in ``spec.disks``.
        log_dir: as Kafka describes it; None if Kafka does not list it, or could not be asked.
        broker_answered: whether its broker answered for its log dirs.
        pod: the broker's pod; None if there is none.
        watched: whether a live agent observes the disk.
        before: its entry in ``status.disks``.
        observed: its entry in ``status.observed.disks``, however old.
        given_up: whether a user declared the node, and the disk with it, lost.
        offset: seconds by which the clock of the disk's node is ahead, where that is more than a little.
    """

    broker: int
    disk: Mapping[str, Any]
    health: Health
    log_dir: LogDir | None
    broker_answered: bool
    pod: SnapshotObject | None
    watched: bool
    before: Mapping[str, Any]
    observed: Mapping[str, Any]
    request: DiskRequest
    given_up: bool = False
    offset: float = 0.0

    @cached_property
    def name(self) -> str:
        """Name of the disk."""
        return str(self.disk["name"])

    @cached_property
    def key(self) -> tuple[int, str]:
        """(broker id, disk)."""
        return self.broker, self.name

    @property
    def added(self) -> bool:
        """Whether it is new to a broker that ran before, and never held data."""
        return bool(self.disk.get("added"))

    @property
    def never_used(self) -> bool:
        """Whether it is new, has no file system on record, and no pod may have it yet."""
        return (
            self.added
            and not self.disk.get("fsUuid")
            and self.mode == disk_facts.ABSENT
            and self.in_pod is None
        )

    @property
    def path(self) -> str:
        """Its log dir."""
        return names.log_dir(self.name)

    @cached_property
    def mode(self) -> str:
        """What it should be: ``Active``, ``Placeholder`` or ``Absent``."""
        return str(self.disk.get("mode") or disk_facts.ACTIVE)

    @property
    def online(self) -> bool | None:
        """Whether Kafka shows the log dir without an error; None if it could not be asked.

        A Kafka that was started with the previous disk shows that disk's dir, at the same path.
        """
        if self.other_in_pod:
            return False
        return (self.log_dir is not None and not self.log_dir.error) if self.broker_answered else None

    @cached_property
    def recorded(self) -> DiskState | None:
        """The state on record; None if there is none that this version knows."""
        text = self.before.get("state")
        return DiskState(text) if text in _STATES else None

    @cached_property
    def in_pod(self) -> str | None:
        """The mode in which the broker's pod has the disk; None without a pod, or where the pod is without it."""
        return mode_in(self.pod, self.name)

    @cached_property
    def other_in_pod(self) -> bool:
        """Whether the broker's pod still has the previous disk, so that its Kafka still writes to that one."""
        return another_in(self.pod, self.name, self.disk["directoryId"])

    @property
    def running(self) -> bool:
        """Whether Kafka runs in the broker's pod."""
        return self.pod is not None and objects.kafka_runs(self.pod)

    @property
    def started(self) -> float | None:
        """When the Kafka that runs was started, in seconds since the epoch by the operator's clock; None if Kafka does not run."""
        return None if self.pod is None else self.operator_time(objects.kafka_started(self.pod))

    def operator_time(self, text: str | None) -> float | None:
        """A time that was written on the disk's node (by its agent or its kubelet), by the operator's clock."""
        at = seconds(text)
        return None if at is None else at - self.offset


def broker_disks(state: ClusterState) -> list[BrokerDisk]:
    """All disks of all brokers."""
    found = [slot for broker_id, broker in state.brokers.items() for slot in _of(state, broker_id, broker)]
    together = stalled_together(state, found)
    return [_starved(slot) if slot in together and slot.health.reason == HUNG else slot for slot in found]


def stalled_together(state: ClusterState, found: Sequence[BrokerDisk]) -> list[BrokerDisk]:
    """Disks in use whose writes stall now for what is probably a common cause.

    Either they belong to more brokers than the rule 'no automatic action on many disks at once' allows, on more than one node, or the stalls began on
    several nodes at about the same time. Disks of several machines do not hang at the same moment by themselves; something that they share is busy. If
    only few brokers are affected, this is assumed for a minute only, since two disks that really hang must be fenced: a slow write does not take longer.
    """
    stalled = [s for s in found if s.health.stalled and s.watched and s.mode == disk_facts.ACTIVE]
    nodes = {s.key: state.brokers[s.broker]["spec"].get("node") for s in stalled}
    if many_brokers(state, found, stalled) and len(set(nodes.values())) > 1:
        return stalled
    ages = {s.key: _pending(state, s) for s in stalled}
    young = [s for s in stalled if ages[s.key] < SHARED_FOR_SECONDS]
    return [
        s
        for s in young
        if any(
            nodes[o.key] != nodes[s.key] and abs(ages[o.key] - ages[s.key]) <= _AT_ONCE
            for o in young
            if o is not s
        )
    ]


def many_brokers(state: ClusterState, found: Sequence[BrokerDisk], stalled: Sequence[BrokerDisk]) -> bool:
    """Whether the stalled disks belong to more brokers than 'no automatic action on many disks at once' allows (docs/safety.md)."""
    return len({s.broker for s in stalled}) > correlated_failures.limit(
        len(found), state.spec.disks.automatic_share / 100
    )


def _pending(state: ClusterState, slot: BrokerDisk) -> float:
    """Seconds for which a stalled write has been pending as its agent reports; since its verdict for an agent of an older version."""
    told = slot.observed.get("pendingSeconds")
    if told is not None:
        return float(told)
    return state.now - slot.health.since if slot.health.reason == HUNG else 0.0


def _starved(slot: BrokerDisk) -> BrokerDisk:
    """Whether a disk is stalled: not bad, and not known to be healthy."""
    said = replace(slot.health, verdict=DiskVerdict.SUSPECT, reason=CORRELATED_STALLS, fresh=False)
    return replace(slot, health=said)


def _of(state: ClusterState, broker_id: int, broker: SnapshotObject) -> list[BrokerDisk]:
    status = broker.get("status") or {}
    before = {entry.get("name"): entry for entry in status.get("disks") or ()}
    observed = status.get("observed") or {}
    said = {entry.get("name"): entry for entry in observed.get("disks") or ()}
    agent = state.snap.agents.get(str(observed.get("node") or ""), NO_AGENT)
    known = (state.kafka.brokers or {}).get(broker_id)
    dirs = {d.path: d for d in (known.log_dirs if known else None) or ()}
    pod, wanted = state.pods.get(broker_id), disk_requests(broker)
    report = {} if pod is None or objects.kafka_ever_ran(pod) else inspected(pod)
    started = None if pod is None else objects.kafka_started(pod)
    runs, began = pod is not None and objects.kafka_runs(pod), seconds(started)
    found = []
    gone = claimed_lost(state, broker_id)
    for disk in disks_of(broker):
        name = disk["name"]
        word = _now_on_record(_said(said.get(name), agent, state.now), disk)
        log_dir = dirs.get(names.log_dir(name))
        error = log_dir.error if log_dir else None
        if not runs or mode_in(pod, name) != disk_facts.ACTIVE:
            word, error = _without_kafka(word), None
        elif word is not None and _before(said[name], began):
            word = _without_kafka(
                word
            )  # reported by the previous Kafka; the present one has not reported yet
        slot = BrokerDisk(
            broker=broker_id,
            disk=disk,
            health=health(
                now=state.now,
                mode=str(disk.get("mode") or disk_facts.ACTIVE),
                said=word,
                kafka_error=error,
                inspected=report.get(name),
                bad_since=_bad_since(before.get(name) or {}),
            ),
            log_dir=log_dir,
            broker_answered=known is not None and known.log_dirs is not None and not known.fenced,
            pod=pod,
            watched=word is not None and word.fresh,
            before=before.get(name) or {},
            observed=said.get(name) or {},
            request=wanted.get(name, NO_REQUEST),
            offset=agent.offset,
        )
        if word is None or not word.fresh:
            slot = _another(slot, report.get(name) or {}, state.now)
        if in_use_before(broker, disk):
            slot = _blank_instead(
                slot, state.now, needed=bool(state.kafka.partition_index.assigned.get(broker_id))
            )
        if gone is not None and gone.agreed:
            found.append(_left_behind(slot, state.now, gone))
        else:
            unwatched = word is None or agent.silent
            found.append(_set_aside(slot, state.now) if unwatched else slot)
    return found


def _said(entry: Mapping[str, Any] | None, agent: Agent, now: float) -> AgentReport | None:
    if entry is None:
        return None
    at = seconds(entry.get("since"))
    # A time in the future was written by a clock that is off by an amount that is not measured yet.
    return AgentReport.parse(entry, now if at is None else min(at - agent.offset, now), fresh=agent.alive)


def _now_on_record(word: AgentReport | None, disk: Mapping[str, Any]) -> AgentReport | None:
    """Whether the agent reports another file system than is on record although what is mounted has been recorded since.

    A new disk is on record at once; its agent still reports the previous one until its next probe.
    """
    if (
        word is None
        or word.reason != OTHER_FILE_SYSTEM
        or not word.fs_uuid
        or word.fs_uuid != disk.get("fsUuid")
    ):
        return word
    return replace(word, verdict=str(DiskVerdict.HEALTHY), reason="", message="")


def _before(entry: Mapping[str, Any], began: float | None) -> bool:
    """Whether the agent reported this before Kafka was started; both times are from the clock of one node."""
    if began is None:
        return False
    said = seconds(entry.get("since"))
    return said is not None and said <= began


def _without_kafka(word: AgentReport | None) -> AgentReport | None:
    """What the agent reports of the disk itself.

    A Kafka that runs without the disk reports its log dir as offline. That follows from its configuration and says nothing about a disk that
    is about to be used again. Nor does the report of a Kafka that has stopped say anything about the next one.
    """
    if word is None or word.reason not in (KAFKA_OFFLINE, OFFLINE_FULL):
        return word
    if word.reason == OFFLINE_FULL:
        return replace(word, verdict=str(DiskVerdict.SUSPECT), reason=FULL, message="The disk is full.")
    return replace(word, verdict=str(DiskVerdict.HEALTHY), reason="", message="")


def _bad_since(before: Mapping[str, Any]) -> float | None:
    if before.get("state") not in (DiskState.FAILED, DiskState.EVACUATING):
        return None
    return seconds(before.get("since"))


def _left_behind(slot: BrokerDisk, now: float, gone: NodeLossClaim) -> BrokerDisk:
    """A disk of a lost node, whatever was reported of it before."""
    since = _bad_since(slot.before)
    health = Health(
        verdict=DiskVerdict.FAILED,
        reason=NODE_LOST,
        message=f"It was in node {gone.node}, which is lost.",
        since=now if since is None else since,
        source=NOBODY,
        fresh=True,
    )
    return replace(slot, health=health, given_up=gone.by_person)


def _another(slot: BrokerDisk, found: Mapping[str, Any], now: float) -> BrokerDisk:
    """A blank disk in place of a formatted one: the one on record is gone, and no agent reports it."""
    before, here = slot.disk.get("fsUuid"), found.get("fsUuid") or "none"
    if (
        slot.mode != disk_facts.ACTIVE
        or found.get("state") != disk_facts.BLANK
        or not before
        or here == before
    ):
        return slot
    since = _bad_since(slot.before)
    health = Health(
        verdict=DiskVerdict.SWAPPED,
        reason=OTHER_FILE_SYSTEM,
        message=f"A blank disk with file system {here} is in its place.",
        since=now if since is None else since,
        source=PREFLIGHT,
        fresh=True,
        content=disk_facts.BLANK,
        fs_uuid=found.get("fsUuid") or None,
    )
    return replace(slot, health=health)


def _blank_instead(slot: BrokerDisk, now: float, *, needed: bool) -> BrokerDisk:
    """A blank disk in place of one that was in use: the broker was started without it, or cannot start and Kafka assigns replicas to it (``needed``)."""
    instead = slot.mode == disk_facts.PLACEHOLDER or (
        slot.mode == disk_facts.ACTIVE and not slot.running and needed
    )
    if not instead or not slot.health.blank:
        return slot
    since = _bad_since(slot.before)
    return replace(
        slot,
        health=replace(
            slot.health,
            verdict=DiskVerdict.SWAPPED,
            reason=OTHER_FILE_SYSTEM,
            message=f"A blank disk with file system {slot.health.fs_uuid or 'none'} is in its place.",
            since=now if since is None else since,
        ),
    )


def _set_aside(slot: BrokerDisk, now: float) -> BrokerDisk:
    """A placeholder that no agent observes (any more): it was excluded because it could not be used, and nothing says otherwise."""
    if slot.mode != disk_facts.PLACEHOLDER:
        return slot
    since = _bad_since(slot.before)
    return replace(
        slot,
        health=Health(
            verdict=DiskVerdict.FAILED,
            reason=EXCLUDED,
            message="The broker was started without this disk.",
            since=now if since is None else since,
            source=PREFLIGHT,
            fresh=True,
        ),
    )


def unbound(state: ClusterState, slot: BrokerDisk) -> bool:
    """Whether the disk's claim exists and has no volume."""
    there = state.claims.get(slot.disk["claim"])
    return there is not None and not (
        objects.deleting(there) or objects.lost(there) or objects.bound_volume(there)
    )
