"""One disk of a broker in scenarios, and helpers for it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from e2e.scenarios.lab import CLUSTER, Lab
from e2e.scenarios.load import Load, Replica, Report
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import is_well, until_well
from e2e.scenarios.timeline import Timeline


@dataclass(frozen=True)
class Slot:
    """A slot of a broker.

    Attributes:
        broker: id of its broker.
        disk: name of the disk.
        volume: its PersistentVolume at the start of the scenario.
        directory_id: Kafka's id of the log dir at the start of the scenario.
    """

    lab: Lab
    broker: int
    disk: str
    volume: str
    directory_id: str

    @property
    def owner(self) -> str:
        """Name of the KafkaBroker and of its pod."""
        return f"{CLUSTER}-broker-{self.broker}"

    @property
    def subject(self) -> str:
        """Its name in the timeline."""
        return f"{self.owner}/{self.disk}"

    def node(self) -> str:
        """The node of its broker."""
        return str(self.lab.the("kafkabroker", self.owner)["spec"]["node"])

    def spec(self) -> dict[str, Any]:
        """Its entry in the spec."""
        return self._entry(self.lab.the("kafkabroker", self.owner)["spec"]["disks"])

    def status(self) -> dict[str, Any]:
        """Its entry in the status."""
        return self._entry(self.lab.the("kafkabroker", self.owner)["status"].get("disks", ()))

    def state(self) -> str:
        """Its disk state."""
        return str(self.status().get("state"))

    def retired(self) -> bool:
        """Whether its former directory id is retired."""
        return self.directory_id in self.lab.the("kafkabroker", self.owner)["spec"].get("retired", ())

    def ask_for(self, state: str) -> None:
        """Request to cordon or drain it, as a user does."""
        entry = {"name": self.disk, "desiredState": state}
        self.lab.patch("kafkabroker", self.owner, {"spec": {"maintenance": {"disks": [entry]}}})

    def accept_loss(self, token: str) -> None:
        """Accept the loss of its data, as a user does."""
        entry = {"name": self.disk, "token": token}
        self.lab.patch("kafkabroker", self.owner, {"spec": {"acceptDataLoss": {"disks": [entry]}}})

    def withdraw(self) -> None:
        """Withdraw all requests for the broker's disks."""
        nothing: dict[str, Any] = {"disks": []}
        self.lab.patch(
            "kafkabroker", self.owner, {"spec": {"maintenance": nothing, "acceptDataLoss": nothing}}
        )

    def _entry(self, disks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        return dict(next((disk for disk in disks if disk["name"] == self.disk), {}))


def slots(lab: Lab) -> dict[tuple[int, str], Slot]:
    """All of a cluster's disks, by broker id and name."""
    found = {}
    for broker in lab.list("kafkabrokers"):
        for disk in broker["spec"]["disks"]:
            slot = Slot(lab, broker["spec"]["id"], disk["name"], disk["pv"], disk["directoryId"])
            found[slot.broker, slot.disk] = slot
    return found


def choose(lab: Lab, load: Load, good: Callable[[list[Replica]], bool] = bool) -> Slot:
    """A disk with replicas of the load that match; by default, any disk with replicas.

    Of several, the one that was not used for the longest time, because the history of a disk influences its verdicts,
    then the fullest.
    """
    standing: dict[tuple[int, str], list[Replica]] = {}
    for replica in load.placement():
        standing.setdefault((replica.broker, replica.disk), []).append(replica)
    able = {key: replicas for key, replicas in standing.items() if good(replicas)}
    assert able, f"no disk holds what the scenario needs: {standing}"
    rest = _minutes_of_peace(lab)
    return slots(lab)[max(able, key=lambda key: (rest.get(key, 0), len(able[key]), key))]


def _minutes_of_peace(lab: Lab) -> dict[tuple[int, str], int]:
    now = datetime.now(UTC)
    return {
        (broker["spec"]["id"], disk["name"]): int((now - datetime.fromisoformat(disk["since"])).seconds / 60)
        for broker in lab.list("kafkabrokers")
        for disk in broker["status"].get("disks", ())
    }


def dies(timeline: Timeline, machine: Machine, slot: Slot, how: str = "fail") -> float:
    """Make a disk fail; returns when."""
    at = timeline.mark(f"{slot.subject}: {how}")
    machine.disk(how, slot.volume)
    return at


def until_told(timeline: Timeline, since: float, slot: Slot) -> dict[str, float]:
    """Wait until the agent, an event and the condition report it; returns seconds for each."""
    return {
        "verdict": timeline.until("verdict", "^(Failed|Missing|Swapped)", slot.subject, since=since) - since,
        "event": timeline.until("event", "^Disk", slot.owner, since=since) - since,
        "condition": timeline.until("condition", "^False", "DisksHealthy", since=since) - since,
    }


def until_evacuated(timeline: Timeline, since: float, slot: Slot, seconds: float = 300) -> float:
    """Wait until no replica is on a disk any more; returns how long that took."""
    return timeline.until("disk", "^Evacuated", slot.subject, since=since, seconds=seconds) - since


def until_used_again(timeline: Timeline, machine: Machine, slot: Slot, since: float) -> None:
    """Wait until all is well after a disk answers again; replace it if its replicas were rebuilt before its agent was sure of it."""
    lab = slot.lab
    lab.until("it is evacuated, or used again", lambda: slot.retired() or is_well(lab), 300)
    if slot.retired():
        until_evacuated(timeline, since, slot)
        replace(timeline, machine, slot)
    else:
        assert slot.spec()["directoryId"] == slot.directory_id


def replace(timeline: Timeline, machine: Machine, *chosen: Slot) -> float:
    """Swap disks for blank ones and wait until all is well and they are backfilled; returns how long that took."""
    for slot in chosen:
        timeline.mark(f"{slot.subject}: swapped for a blank one")
        machine.new_disk(slot.volume, keep=True)
    took = until_well(chosen[0].lab)
    timeline.mark("well again")
    assert_used(*chosen)
    return took


def conclude(load: Load, timeline: Timeline, since: float) -> Report:
    """End the load; all acknowledged records must be there, and no temporary setting may remain."""
    report = load.finish()
    timeline.add_kafka(load.lines())
    print(timeline.table())
    print(
        f"{report.summary(since)}; time without acknowledgements after the fault: {report.silent_until(since)}"
    )
    assert not report.lost
    assert not [name for name, line in report.partitions.items() if line["unreadable"]]
    journal = load.lab.get("configmap", f"{CLUSTER}-moves")
    rest = "".join(((journal or {}).get("data") or {}).values())
    assert '"key"' not in rest, f"Kafka settings that were not restored: {rest}"
    return report


def assert_spread(load: Load, replicas: int = 3) -> None:
    """Every partition has all of its replicas, on brokers of different racks."""
    lab = load.lab
    placed = load.placement()
    topics = {topic.name for topic in load.topics if topic.replicas == replicas}
    brokers: dict[str, list[int]] = {}
    for replica in placed:
        if replica.topic in topics:
            brokers.setdefault(replica.name, []).append(replica.broker)
    wrong = {
        name: found
        for name, found in brokers.items()
        if len(set(found)) != replicas or len(found) != replicas
    }
    assert not wrong, f"replicas are missing or duplicate: {wrong}"
    racks = {b["spec"]["id"]: b["spec"]["rack"] for b in lab.list("kafkabrokers")}
    most = min(replicas, len(set(racks.values())))
    assert all(len({racks[broker] for broker in found}) == most for found in brokers.values()), brokers


def assert_used(*chosen: Slot) -> None:
    """The disks have replicas of any topic (bytes are what is balanced), unless their broker has too few of them."""
    for slot in chosen:
        disks = slot.lab.the("kafkabroker", slot.owner)["status"]["disks"]
        assert slot.status().get("replicas") or sum(disk.get("replicas", 0) for disk in disks) < len(disks), (
            f"{slot.subject} has no replica: {disks}"
        )
